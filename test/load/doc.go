// Package loadtest holds the tests that need load, lost processes and time:
// they run the real binary as a process of its own, so that its descriptors,
// memory and exit status are those of a node in service, and look at it from
// outside.
//
// Each test has a short form, which all tests together run within three minutes
// on two busy cores, and a long form with the counts and sizes that the
// product promises; FAIRLEAD_SOAK=1 (make soak) runs the long ones, TestSoak for
// FAIRLEAD_SOAK_MINUTES on each engine, and TestWebSocketRelay (make websocket)
// for ten minutes on each. With the race detector the binary has it too, and what
// it reports fails the test; its memory then says nothing and is not judged.
package loadtest
