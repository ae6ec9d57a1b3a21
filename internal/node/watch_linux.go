package node

import (
	"os"

	"golang.org/x/sys/unix"
)

// beingWritten reports whether some process has the file open for writing. The
// kernel knows: it grants a read lease only when nobody has (fcntl(2)). Where
// leases cannot be had (network file systems, files of other users) the answer
// is no, and holding still has to do.
func beingWritten(name string) bool {
	f, err := os.Open(name)
	if err != nil {
		return false
	}
	defer f.Close() // which ends the lease
	_, err = unix.FcntlInt(f.Fd(), unix.F_SETLEASE, unix.F_RDLCK)
	return err == unix.EAGAIN
}
