// Package member holds what the members of a group have in common.
//
//	PROGRAM BOOTSTRAP GROUP TOPIC ASSIGNOR SESSION_MS [INSTANCE]
//
// Prints what happens to it as ../python/member.py describes, and leaves the group when its standard input ends.
package member

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unsafe"
)

// CommitRecords is how many records are processed before their offsets are committed.
const CommitRecords = 20

// Arguments is what the program was told.
type Arguments struct {
	Bootstrap, Group, Topic, Assignor string
	Session, Heartbeat                time.Duration
	// Instance is empty for a member that is not static.
	Instance string
}

// Read reads the arguments of the program.
func Read() Arguments {
	words := append(os.Args[1:], "")
	session, err := strconv.Atoi(words[4])
	if err != nil {
		Fail(err)
	}
	timeout := time.Duration(session) * time.Millisecond
	return Arguments{words[0], words[1], words[2], words[3], timeout, timeout / 12, words[5]}
}

// Fail ends the program with the reason.
func Fail(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

// Say prints an event.
func Say(event string, words ...any) {
	line := strconv.FormatInt(monotonic(), 10) + " " + event
	for _, word := range words {
		line += " " + strings.ReplaceAll(fmt.Sprint(word), "\n", " ")
	}
	// One write for each line, so that a kill leaves whole lines.
	os.Stdout.WriteString(line + "\n")
}

// monotonic reads the clock that all processes of the machine share; Go's own has no common beginning.
func monotonic() int64 {
	const clockMonotonic = 1
	var now syscall.Timespec
	syscall.Syscall(syscall.SYS_CLOCK_GETTIME, clockMonotonic, uintptr(unsafe.Pointer(&now)), 0)
	return now.Nano()
}

// Partitions writes numbers as the events want them.
func Partitions(numbers []int32) string {
	slices.Sort(numbers)
	words := make([]string, len(numbers))
	for i, number := range numbers {
		words[i] = strconv.Itoa(int(number))
	}
	return strings.Join(words, ",")
}

// Offsets writes offsets as the events want them.
func Offsets(offsets map[int32]int64) string {
	var words []string
	for partition, offset := range offsets {
		words = append(words, fmt.Sprintf("%d:%d", partition, offset))
	}
	return strings.Join(words, ",")
}

// WhenTold calls leave when standard input ends.
func WhenTold(leave func()) {
	go func() {
		io.Copy(io.Discard, os.Stdin)
		leave()
	}()
}
