// The lock that the callers were promised, as a sequential specification for Porcupine.
//
// A history is what the callers of one lock saw: each operation with the time of its call and of its return. It is
// accepted if there is one order of all operations in which each takes effect at one instant between its call and its
// return, and in which the lock below answers as the callers were answered.
//
// Time enters by an operation of its own. A caller was told that its lock is valid until U. So each hold brings an
// operation `expire` that is called at U and never returns: the hold may end by itself at any instant from U on, and not
// before. A grant needs a lock that is free, or a hold that has expired. Hence two valid holders have no order.
//
// An unknown outcome stays open: its operation never returns, so it may take effect at any later instant, or never.
package main

import (
	"fmt"

	"github.com/anishathalye/porcupine"
)

// Status says whether the row of the lock is held, and whether its holder still counts on it.
type Status uint8

const (
	free    Status = iota // never taken, or released
	held                  // the holder was promised that it is valid
	expired               // the promise is over; nobody has taken the lock since, as far as callers know
	orphan                // taken by a request that its sender had given up on: nobody holds it
)

func (s Status) String() string { return [...]string{"free", "held", "expired", "orphan"}[s] }

// shortestLease is that of the callers (caller.py), in nanoseconds. A lock that is adopted is not free any sooner.
const shortestLease = 1_000_000_000

// Lock is the state: the row, and the register that only commits write.
type Lock struct {
	Token  int64
	Owner  string
	Status Status
	Value  string
	// NotBefore is when an orphan can be taken over: it has a lease, though nobody counts on it.
	NotBefore int64
}

// Operation is one line of a recorded history.
type Operation struct {
	Kind    string `json:"kind"`    // acquire, adopt, renew, release, commit, hand_over, read, held, expire
	Outcome string `json:"outcome"` // ok, no, lost, refused, unknown
	Client  int    `json:"client"`
	Call    int64  `json:"call"`   // nanoseconds of the machine's monotonic clock
	Return  int64  `json:"end"`    // -1: never
	Token   int64  `json:"token"`  // of the hold; for an adopt that was granted, the new one
	From    int64  `json:"handed"` // adopt: the token that was handed over
	Owner   string `json:"owner"`  // acquire: the new owner, or the one that the refusal named
	Value   string `json:"value"`  // commit: what it writes, "" if its items must be refused; read: what it saw
	// Asked: of an acquire that was refused, whether the owner named had asked for the lock by then. Of an adopt that was
	// lost, whether somebody asked for the lock late enough to take over what it may have adopted.
	Asked bool `json:"asked"`
	// Of a semaphore (permits.go). Take: how many permits the hold has. Resumed: whether another attempt may have gone
	// over the hold's handle at any time, so that what this one is told of its end shows nothing.
	Take    int64 `json:"take"`
	Resumed bool  `json:"resumed"`
}

// History is everything that callers did with one lock.
type History struct {
	Lock string `json:"lock"`
	// Calm: no request was lost, late or doubled, so that nothing but the callers' operations explains an answer.
	Calm bool `json:"calm"`
	// Permits: N of a semaphore; 0 for a lock.
	Permits    int64       `json:"permits"`
	Operations []Operation `json:"operations"`
}

// Open says whether the operation may still take effect after everything else.
func (o Operation) Open() bool { return o.Return < 0 }

// step carries out an operation. It is illegal where the lock could not have answered so.
func step(lock Lock, o Operation, calm bool) (bool, Lock) {
	stored := lock.Status == held || lock.Status == expired
	mine := stored && lock.Token == o.Token
	// A take-over by a request that was given up needs an expired hold, and is seen by nobody but the old holder.
	gone := !mine || (lock.Status == expired && !calm)
	switch o.Kind + " " + o.Outcome {
	case "acquire ok":
		possible := lock.Status != held && o.Token > lock.Token && inTime(lock, o)
		return possible, Lock{Token: o.Token, Owner: o.Owner, Status: held, Value: lock.Value}
	case "acquire no":
		if stored && lock.Owner == o.Owner {
			return true, lock
		}
		// A claim that was given up, or a late copy of an old one, can take a lock that nobody holds.
		possible := lock.Status != held && o.Asked && !calm
		lock.Owner, lock.Status, lock.NotBefore = o.Owner, orphan, 0
		return possible, lock
	case "adopt ok":
		stays := stored && lock.Token == o.From && o.Token > lock.Token
		return stays, Lock{Token: o.Token, Owner: lock.Owner, Status: held, Value: lock.Value}
	case "adopt lost":
		if stored && lock.Token == o.From && o.Asked && !calm {
			// It was carried out, and the answer was lost. Another took the lock over before it could be sent again.
			lock.Token, lock.Status, lock.NotBefore = o.From+1, orphan, o.Call+shortestLease
			return true, lock
		}
		return !stored || lock.Token != o.From || (lock.Status == expired && !calm), lock
	case "adopt unknown": // and given up: nobody holds what it may have taken
		if stored && lock.Token == o.From {
			lock.Token, lock.Status, lock.NotBefore = o.From+1, orphan, 0
		}
		return true, lock
	case "renew ok", "held ok":
		return lock.Status == held && lock.Token == o.Token, lock
	case "renew lost", "hand_over lost":
		return lock.Status != held || lock.Token != o.Token, lock
	case "hand_over ok": // also given where its renewal's outcome is unknown, so it shows nothing
		return true, lock
	case "release ok":
		lock.Status = free
		return mine, lock
	case "commit refused": // for its items, and it releases
		lock.Status = free
		return mine && o.Value == "", lock
	case "release lost":
		return gone, lock
	case "commit lost":
		if mine && o.Value == "" { // it was refused for its items, released the lock, and found it gone when sent again
			lock.Status = free
			return true, lock
		}
		return gone, lock
	case "release over": // asked after a commit of unknown outcome: whoever released it, it is released now
		if mine {
			lock.Status = free
		}
		return true, lock
	case "release unknown":
		if mine {
			lock.Status = free
		}
		return true, lock
	case "commit ok":
		lock.Status, lock.Value = free, o.Value
		return mine && o.Value != "", lock
	case "commit unknown":
		if mine {
			lock.Status = free
			if o.Value != "" { // else it must be refused for its items, which only releases the lock
				lock.Value = o.Value
			}
		}
		return true, lock
	case "read ok":
		return lock.Value == o.Value, lock
	case "expire ok":
		if lock.Status == held && lock.Token == o.Token {
			lock.Status = expired
		}
		return true, lock
	}
	panic(fmt.Sprintf("the history has an operation that the model does not know: %+v", o))
}

// inTime says whether a take-over that this operation brought can have come late enough.
func inTime(lock Lock, o Operation) bool {
	return lock.Status != orphan || o.Open() || o.Return >= lock.NotBefore
}

// modelOf makes the specification of a history for Porcupine.
func modelOf(history History) porcupine.Model {
	if history.Permits > 0 {
		return modelOfPermits(history.Permits)
	}
	return model(history.Calm)
}

func model(calm bool) porcupine.Model {
	return porcupine.Model{
		Init: func() interface{} { return Lock{} },
		Step: func(state, input, _ interface{}) (bool, interface{}) {
			legal, next := step(state.(Lock), input.(Operation), calm)
			return legal, next
		},
		DescribeOperation: func(input, _ interface{}) string { return describe(input.(Operation)) },
		DescribeState: func(state interface{}) string {
			lock := state.(Lock)
			return fmt.Sprintf("%s token %d owner %s value %q", lock.Status, lock.Token, lock.Owner, lock.Value)
		},
	}
}

func describe(o Operation) string {
	switch o.Kind {
	case "acquire":
		if o.Outcome == "no" {
			return fmt.Sprintf("acquire: no, %s holds it", o.Owner)
		}
		if o.Take > 0 {
			return fmt.Sprintf("acquire: token %d, takes %d", o.Token, o.Take)
		}
		return fmt.Sprintf("acquire: token %d as %s", o.Token, o.Owner)
	case "adopt":
		return fmt.Sprintf("adopt %d: %s, token %d", o.From, o.Outcome, o.Token)
	case "commit":
		return fmt.Sprintf("commit %q under %d: %s", o.Value, o.Token, o.Outcome)
	case "read":
		return fmt.Sprintf("read: %q", o.Value)
	case "expire":
		return fmt.Sprintf("validity of %d ends", o.Token)
	}
	return fmt.Sprintf("%s %d: %s", o.Kind, o.Token, o.Outcome)
}

const never = int64(1) << 62

// events gives Porcupine a history's operations, the open ones with the latest return that can matter.
//
// What is open under a token has no effect once a later token is granted, for tokens rise. So it is as good if it
// returns when the first such grant has: it can still be put anywhere before, and right after, where it does nothing.
// Without this, each open operation would double the orders to try. With keepOpen, they stay open to the end.
func events(history History, keepOpen bool) []porcupine.Operation {
	found := make([]porcupine.Operation, 0, len(history.Operations))
	for _, o := range history.Operations {
		last := o.Return
		if o.Open() {
			last = never
			if !keepOpen {
				last = max(o.Call, overtaken(history, o))
			}
		}
		found = append(found, porcupine.Operation{ClientId: o.Client, Input: o, Call: o.Call, Return: last})
	}
	return found
}

// overtaken gives the first instant by which a token above this operation's has been granted.
func overtaken(history History, open Operation) int64 {
	token, first := open.Token, never
	if open.Kind == "adopt" {
		token = open.From
	}
	for _, o := range history.Operations {
		if (o.Kind == "acquire" || o.Kind == "adopt") && o.Outcome == "ok" && o.Token > token {
			first = min(first, o.Return)
		}
	}
	return first
}
