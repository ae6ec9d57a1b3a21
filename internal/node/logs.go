package node

import (
	"log/slog"

	"fairlead/internal/plan"
	"fairlead/internal/telemetry"
)

// logs are the logs of requests and queries that are open; nil where there is none.
type logs struct {
	access *telemetry.AccessLog
	query  *telemetry.QueryLog
}

// currentLogs returns the logs that are open.
func (n *Node) currentLogs() logs {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.logs
}

// openLogs returns the logs for p: those that are open, where the settings are the
// same.
func (n *Node) openLogs(p, old *plan.Plan) (opened logs, err error) {
	was := n.currentLogs()
	access, query := p.Config.AccessLog, p.Config.QueryLog
	switch {
	case old != nil && old.Config.AccessLog == access:
		opened.access = was.access
	case access.Output != "":
		if opened.access, err = telemetry.OpenAccessLog(access.Output, access.Sample, n.log); err != nil {
			return logs{}, err
		}
	}
	switch {
	case old != nil && old.Config.QueryLog == query:
		opened.query = was.query
	case query.Output != "":
		if opened.query, err = telemetry.OpenQueryLog(query.Output, query.Sample, n.log); err != nil {
			opened.but(was).close(n.log)
			return logs{}, err
		}
	}
	return opened, nil
}

// but returns the logs that others have not.
func (l logs) but(others logs) logs {
	if l.access == others.access {
		l.access = nil
	}
	if l.query == others.query {
		l.query = nil
	}
	return l
}

func (l logs) close(log *slog.Logger) {
	if err := l.access.Close(); err != nil {
		log.Error("access log is not complete", "error", err)
	}
	if err := l.query.Close(); err != nil {
		log.Error("query log is not complete", "error", err)
	}
}

// reopenLogs opens the files of logs anew, for whoever rotates them.
func (n *Node) reopenLogs() {
	l := n.currentLogs()
	if err := l.access.Reopen(); err != nil {
		n.log.Error("access log cannot be opened anew", "error", err)
	}
	if err := l.query.Reopen(); err != nil {
		n.log.Error("query log cannot be opened anew", "error", err)
	}
}
