package main

import (
	"math/rand"
	"testing"
	"time"
)

// What callers of a semaphore with three permits were told, in short.

func taken(token, take int64) Operation {
	return Operation{Kind: "acquire", Token: token, Take: take}
}

func resumed(o Operation) Operation {
	o.Resumed = true
	return o
}

var legalOfThree = []example{
	{"two of three, and one", false, []Operation{
		at(0, 1, taken(1, 2)), at(2, 3, taken(2, 1)), at(4, 5, act("held", "ok", 1)), at(6, 7, act("release", "ok", 1)),
		at(8, 9, taken(3, 2)),
	}},
	{"three at once, of which two leave meanwhile", false, []Operation{
		at(0, 1, taken(1, 2)), at(0, 1, taken(2, 1)), at(2, 9, act("release", "ok", 1)), at(2, 9, act("release", "ok", 2)),
		at(3, 4, taken(3, 3)),
	}},
	{"all of three, once the promise of one that died is over", false, []Operation{
		at(0, 1, taken(1, 2)), at(9, 9, act("expire", "ok", 1)), at(8, 10, taken(2, 3)), at(11, 12, act("renew", "lost", 1)),
	}},
	{"all of three, after a release of unknown outcome", false, []Operation{
		at(0, 1, taken(1, 2)), at(2, 2, act("release", "unknown", 1)), at(3, 4, taken(2, 3)), at(9, 9, act("expire", "ok", 1)),
	}},
	{"a hold that goes on in another attempt, and is released by it", false, []Operation{
		at(0, 1, resumed(taken(1, 2))), at(2, 3, resumed(taken(1, 2))), at(4, 5, resumed(act("release", "ok", 1))),
		at(6, 7, resumed(act("renew", "lost", 1))), at(8, 9, taken(2, 3)),
	}},
	{"a hold that is first told of after a later one was granted", false, []Operation{
		at(0, 1, taken(2, 1)), at(2, 3, resumed(taken(1, 2))),
	}},
}

var illegalOfThree = []example{
	{"more than three", false, []Operation{at(0, 1, taken(1, 2)), at(2, 3, taken(2, 2))}},
	{"more than three by one", false, []Operation{
		at(0, 1, taken(1, 1)), at(0, 1, taken(2, 1)), at(0, 1, taken(3, 1)), at(0, 1, taken(4, 1)),
	}},
	{"more than three, one instant before a promise is over", false, []Operation{
		at(0, 1, taken(1, 2)), at(9, 9, act("expire", "ok", 1)), at(7, 8, taken(2, 2)),
	}},
	{"more than three, beside a hold that goes on in another attempt", false, []Operation{
		at(0, 1, resumed(taken(1, 2))), at(9, 9, act("expire", "ok", 1)), at(2, 3, resumed(taken(1, 2))), at(4, 5, taken(2, 2)),
	}},
	{"a release that gave back more than it had", false, []Operation{
		at(0, 1, taken(1, 2)), at(0, 1, taken(2, 1)), at(2, 3, act("release", "ok", 2)), at(4, 5, taken(3, 2)),
	}},
	{"a hold that takes less when it is resumed", false, []Operation{
		at(0, 1, resumed(taken(1, 2))), at(2, 3, resumed(taken(1, 1))),
	}},
	{"a token that is granted twice", false, []Operation{at(0, 1, taken(1, 1)), at(2, 3, taken(1, 1))}},
	{"a token that is lower than one before", false, []Operation{at(0, 1, taken(2, 1)), at(2, 3, taken(1, 1))}},
	{"a loss within the promise", false, []Operation{
		at(0, 1, taken(1, 2)), at(2, 3, act("renew", "lost", 1)), at(9, 9, act("expire", "ok", 1)),
	}},
	{"permits that are released twice", false, []Operation{
		at(0, 1, taken(1, 2)), at(2, 3, act("release", "ok", 1)), at(4, 5, act("release", "ok", 1)),
	}},
	{"a holder of permits that it has given back", false, []Operation{
		at(0, 1, taken(1, 2)), at(2, 3, act("release", "ok", 1)), at(4, 5, act("held", "ok", 1)),
	}},
}

func judgeOfThree(operations []Operation) string {
	return check(History{Lock: "example", Permits: 3, Operations: operations}, 20*time.Second, false, "").Result
}

func TestAddsUpWhatIsTaken(t *testing.T) {
	for want, examples := range map[string][]example{"legal": legalOfThree, "illegal": illegalOfThree} {
		for _, each := range examples {
			if got := judgeOfThree(each.operations); got != want {
				t.Errorf("%s: %s", each.name, got)
			}
		}
	}
}

// ordersOfThree tries every order of the operations: slow, and with nothing of Porcupine in it.
func ordersOfThree(state Permits, rest []Operation) bool {
	earliest := never
	for _, o := range rest {
		earliest = min(earliest, o.Return)
	}
	for i, o := range rest {
		if o.Call > earliest {
			continue
		}
		if possible, next := share(state, o, 3); possible {
			others := append(append([]Operation{}, rest[:i]...), rest[i+1:]...)
			if ordersOfThree(next, others) {
				return true
			}
		}
	}
	return len(rest) == 0
}

func TestAgreesOfPermitsWithATrialOfEveryOrder(t *testing.T) {
	source, seen := rand.New(rand.NewSource(3)), map[string]int{}
	for range many() {
		operations := make([]Operation, 3+source.Intn(4))
		for i := range operations {
			token := 1 + source.Int63n(3)
			kinds := []Operation{
				taken(token, 1+source.Int63n(3)), taken(token, 1+source.Int63n(2)), resumed(taken(token, 1+source.Int63n(2))),
				act("held", "ok", token), act("renew", "lost", token), act("release", "ok", token),
				act("release", "unknown", token), act("expire", "ok", token),
			}
			call := source.Int63n(12)
			operations[i] = at(call, call+source.Int63n(6), kinds[source.Intn(len(kinds))])
		}
		want := map[bool]string{true: "legal", false: "illegal"}[ordersOfThree(Permits{}, operations)]
		if got := judgeOfThree(operations); got != want {
			t.Fatalf("%s, but every order was tried: %s: %+v", got, want, operations)
		}
		seen[want]++
	}
	if seen["legal"] < many()/60 || seen["illegal"] < many()/60 {
		t.Errorf("too few of one kind: %v", seen)
	}
}
