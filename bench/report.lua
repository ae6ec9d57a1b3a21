-- Prints wrk's own figures exactly, for the program that started it. There is
-- no request or response function here: those would cost wrk time per request.
done = function(summary, latency, requests)
  local e = summary.errors
  io.write(string.format(
    '\nreport: {"requests":%d,"duration_us":%d,"bytes":%d,"p50_us":%.0f,"p99_us":%.0f,' ..
    '"connect_errors":%d,"read_errors":%d,"write_errors":%d,"timeouts":%d,"status_errors":%d}\n',
    summary.requests, summary.duration, summary.bytes, latency:percentile(50), latency:percentile(99),
    e.connect, e.read, e.write, e.timeout, e.status))
end
