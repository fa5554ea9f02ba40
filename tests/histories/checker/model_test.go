package main

import (
	"fmt"
	"math/rand"
	"testing"
	"time"
)

// The callers of these histories, in short. Times are in nanoseconds.

func at(call, end int64, o Operation) Operation {
	o.Call, o.Return = call, end
	if o.Outcome == "" {
		o.Outcome = "ok"
	}
	return o
}

func open(call int64, o Operation) Operation { return at(call, -1, o) }

func grant(token int64) Operation {
	return Operation{Kind: "acquire", Token: token, Owner: fmt.Sprint("owner", token)}
}
func refusal(token int64) Operation {
	return Operation{Kind: "acquire", Outcome: "no", Owner: fmt.Sprint("owner", token), Asked: true}
}
func adopt(from, token int64) Operation { return Operation{Kind: "adopt", From: from, Token: token} }
func adoptLost(from int64) Operation    { return Operation{Kind: "adopt", Outcome: "lost", From: from} }

// overtakenAdopt is one that was lost, during which somebody asked for the lock late enough to take it over.
func overtakenAdopt(from int64) Operation {
	return Operation{Kind: "adopt", Outcome: "lost", From: from, Asked: true}
}

func act(kind, outcome string, token int64) Operation {
	return Operation{Kind: kind, Outcome: outcome, Token: token}
}
func commit(outcome string, token int64, value string) Operation {
	return Operation{Kind: "commit", Outcome: outcome, Token: token, Value: value}
}
func read(value string) Operation { return Operation{Kind: "read", Value: value} }

type example struct {
	name       string
	calm       bool
	operations []Operation
}

var legal = []example{
	{"nothing at all", true, nil},
	{"one after the other", true, []Operation{
		at(0, 1, grant(1)), at(1, 2, act("held", "ok", 1)), at(2, 3, act("release", "ok", 1)), at(4, 5, grant(2)),
	}},
	{"a release and the next grant at the same time", true, []Operation{
		at(0, 1, grant(1)), at(2, 9, act("release", "ok", 1)), at(3, 4, grant(2)),
	}},
	{"a hold that ended by expiry", true, []Operation{
		at(0, 1, grant(1)), open(10, act("expire", "ok", 1)), at(9, 11, grant(2)), at(12, 13, act("renew", "lost", 1)),
		at(13, 14, act("release", "lost", 1)),
	}},
	{"a release late, of an expired hold that nobody took", true, []Operation{
		at(0, 1, grant(1)), open(10, act("expire", "ok", 1)), at(20, 21, act("release", "ok", 1)), at(22, 23, grant(2)),
	}},
	{"a release of unknown outcome that was carried out", false, []Operation{
		at(0, 1, grant(1)), open(50, act("expire", "ok", 1)), open(2, act("release", "unknown", 1)), at(6, 7, grant(2)),
	}},
	{"a release of unknown outcome that was not carried out", false, []Operation{
		at(0, 1, grant(1)), open(50, act("expire", "ok", 1)), open(2, act("release", "unknown", 1)),
		at(6, 7, refusal(1)), at(60, 61, grant(2)),
	}},
	{"a commit of unknown outcome that was carried out late", false, []Operation{
		at(0, 1, grant(1)), open(50, act("expire", "ok", 1)), open(2, commit("unknown", 1, "a")),
		at(6, 7, read("")), at(8, 9, read("a")), at(10, 11, grant(2)), at(11, 12, read("a")),
	}},
	{"a commit of unknown outcome that never was", false, []Operation{
		at(0, 1, grant(1)), open(50, act("expire", "ok", 1)), open(2, commit("unknown", 1, "a")),
		at(60, 61, grant(2)), at(61, 62, read("")), at(63, 64, commit("ok", 2, "b")), at(65, 66, read("b")),
	}},
	{"a refusal that names the holder", true, []Operation{
		at(0, 1, grant(1)), at(2, 3, refusal(1)), at(4, 5, act("release", "ok", 1)),
	}},
	{"a refusal that names a holder who does not know yet that it is one", true, []Operation{
		at(0, 9, grant(1)), at(2, 3, refusal(1)), at(10, 11, act("release", "ok", 1)),
	}},
	{"a refusal that names the late copy of an old claim", false, []Operation{
		at(0, 1, grant(1)), at(2, 3, act("release", "ok", 1)), at(4, 5, refusal(1)), at(6, 7, grant(3)),
	}},
	{"a lock handed over and adopted", true, []Operation{
		at(0, 1, grant(1)), open(9, act("expire", "ok", 1)), at(2, 3, act("hand_over", "ok", 1)),
		at(4, 5, adopt(1, 2)), at(6, 7, adoptLost(1)),
		at(8, 12, act("held", "ok", 2)), at(13, 14, act("release", "ok", 2)),
	}},
	{"an adopt of unknown outcome, after which the lock is taken at once", false, []Operation{
		at(0, 1, grant(1)), open(90, act("expire", "ok", 1)), at(2, 3, act("hand_over", "ok", 1)),
		open(4, Operation{Kind: "adopt", Outcome: "unknown", From: 1}), at(10, 11, grant(3)),
	}},
	{"an adopt that was carried out without an answer, and found the lock taken over when sent again", false, []Operation{
		at(0, 1, grant(1)), open(9_000_000_000, act("expire", "ok", 1)), at(2, 3, act("hand_over", "ok", 1)),
		at(4, 2_000_000_000, overtakenAdopt(1)), at(6, 7, adoptLost(1)), at(1_500_000_000, 1_500_000_001, grant(3)),
	}},
	{"a commit of unknown outcome whose items must be refused, and which released the lock", false, []Operation{
		at(0, 1, grant(1)), at(2, 3, commit("ok", 1, "a")), at(4, 5, grant(2)), open(50, act("expire", "ok", 2)),
		open(6, commit("unknown", 2, "")), at(7, 8, grant(3)), at(9, 10, read("a")),
	}},
	{"a commit that was refused for its items, and found its own release when sent again", false, []Operation{
		at(0, 1, grant(1)), at(2, 9, commit("lost", 1, "")), at(4, 5, grant(2)), at(6, 7, read("")),
	}},
	{"a refused commit releases", true, []Operation{
		at(0, 1, grant(1)), at(2, 3, commit("refused", 1, "")), at(4, 5, grant(2)), at(6, 7, read("")),
	}},
}

var illegal = []example{
	{"two holders", false, []Operation{
		at(0, 1, grant(1)), open(50, act("expire", "ok", 1)), at(10, 11, grant(2)),
	}},
	{"two holders, where both release", true, []Operation{
		at(0, 1, grant(1)), at(2, 3, grant(2)), at(4, 5, act("release", "ok", 2)), at(6, 7, act("release", "ok", 1)),
	}},
	{"two holders, one of them by a renewal", false, []Operation{
		at(0, 1, grant(1)), open(10, act("expire", "ok", 1)), at(12, 13, grant(2)), at(14, 15, act("renew", "ok", 1)),
	}},
	{"a take-over one instant before the end of validity", false, []Operation{
		at(0, 1, grant(1)), open(50, act("expire", "ok", 1)), at(10, 49, grant(2)),
	}},
	{"a holder that still sees itself as one after the next grant", false, []Operation{
		at(0, 1, grant(1)), open(50, act("expire", "ok", 1)), at(40, 60, grant(2)), at(61, 62, act("held", "ok", 1)),
	}},
	{"a token that is repeated", true, []Operation{
		at(0, 1, grant(1)), at(2, 3, act("release", "ok", 1)), at(4, 5, grant(1)),
	}},
	{"a token that is lower than one before", true, []Operation{
		at(0, 1, grant(5)), at(2, 3, act("release", "ok", 5)), at(4, 5, grant(4)),
	}},
	{"a release that succeeds under the next holder", false, []Operation{
		at(0, 1, grant(1)), open(10, act("expire", "ok", 1)), at(11, 12, grant(2)), at(13, 14, act("release", "ok", 1)),
	}},
	{"a lock released twice", true, []Operation{
		at(0, 1, grant(1)), at(2, 3, act("release", "ok", 1)), at(4, 5, act("release", "ok", 1)),
	}},
	{"a release that finds the lock lost though nobody took it", true, []Operation{
		at(0, 1, grant(1)), at(2, 3, act("release", "lost", 1)),
	}},
	{"a loss while the promise lasts", false, []Operation{
		at(0, 1, grant(1)), open(50, act("expire", "ok", 1)), at(10, 11, act("renew", "lost", 1)),
	}},
	{"a commit of unknown outcome whose items must be refused, and which took back the last one", false, []Operation{
		at(0, 1, grant(1)), at(2, 3, commit("ok", 1, "a")), at(4, 5, grant(2)), open(50, act("expire", "ok", 2)),
		open(6, commit("unknown", 2, "")), at(7, 8, grant(3)), at(9, 10, read("")),
	}},
	{"a commit under a lock that was taken over", false, []Operation{
		at(0, 1, grant(1)), open(10, act("expire", "ok", 1)), at(12, 13, grant(2)), at(14, 15, commit("ok", 1, "a")),
	}},
	{"a commit of unknown outcome that takes effect under the next holder", false, []Operation{
		at(0, 1, grant(1)), open(10, act("expire", "ok", 1)), open(5, commit("unknown", 1, "a")),
		at(12, 13, grant(2)), at(14, 15, read("")), at(16, 17, read("a")),
	}},
	{"a commit that found the lock lost, and released it", false, []Operation{
		at(0, 1, grant(1)), at(2, 9, commit("lost", 1, "a")), at(4, 5, grant(2)), at(6, 7, read("")),
	}},
	{"a commit that found the lock lost, and wrote", false, []Operation{
		at(0, 1, grant(1)), open(2, act("expire", "ok", 1)), at(3, 9, commit("lost", 1, "a")), at(10, 11, read("a")),
	}},
	{"a commit that is not seen", true, []Operation{
		at(0, 1, grant(1)), at(2, 3, commit("ok", 1, "a")), at(4, 5, grant(2)), at(6, 7, read("")),
	}},
	{"a commit that is undone", true, []Operation{
		at(0, 1, grant(1)), at(2, 3, commit("ok", 1, "a")), at(4, 5, grant(2)), at(6, 7, commit("ok", 2, "b")),
		at(8, 9, read("a")),
	}},
	{"a refused commit that wrote", true, []Operation{
		at(0, 1, grant(1)), at(2, 3, commit("refused", 1, "")), at(4, 5, read("a")),
	}},
	{"a commit that was refused though its items can be written", true, []Operation{
		at(0, 1, grant(1)), at(2, 3, commit("refused", 1, "a")),
	}},
	{"a commit that wrote though its items must be refused", true, []Operation{
		at(0, 1, grant(1)), at(2, 3, commit("ok", 1, "")),
	}},
	{"a string adopted twice", false, []Operation{
		at(0, 1, grant(1)), at(2, 3, act("hand_over", "ok", 1)), at(4, 5, adopt(1, 2)), at(6, 7, adopt(1, 3)),
	}},
	{"an adopt that finds the lock lost though nobody took it", false, []Operation{
		at(0, 1, grant(1)), open(50, act("expire", "ok", 1)), at(2, 3, act("hand_over", "ok", 1)), at(4, 5, adoptLost(1)),
		at(6, 7, adopt(1, 2)),
	}},
	{"an adopt that took long and finds the lock lost though nobody asked for it", false, []Operation{
		at(0, 1, grant(1)), open(9_000_000_000, act("expire", "ok", 1)), at(2, 3, act("hand_over", "ok", 1)),
		at(4, 2_000_000_000, adoptLost(1)),
	}},
	{"an adopt that took long and finds the lock lost, on a quiet network", true, []Operation{
		at(0, 1, grant(1)), open(9_000_000_000, act("expire", "ok", 1)), at(2, 3, act("hand_over", "ok", 1)),
		at(4, 2_000_000_000, overtakenAdopt(1)), at(1_500_000_000, 1_500_000_001, grant(3)),
	}},
	{"an adopted lock that is taken over before its lease can have ended", false, []Operation{
		at(0, 1, grant(1)), open(9_000_000_000, act("expire", "ok", 1)), at(2, 3, act("hand_over", "ok", 1)),
		at(4, 2_000_000_000, overtakenAdopt(1)), at(10, 11, grant(3)),
	}},
	{"an adopted lock that is taken over under the token of the adopt", false, []Operation{
		at(0, 1, grant(1)), open(9_000_000_000, act("expire", "ok", 1)), at(2, 3, act("hand_over", "ok", 1)),
		at(4, 2_000_000_000, overtakenAdopt(1)), at(1_500_000_000, 1_500_000_001, grant(2)),
	}},
	{"a lock granted to another while its string waits", false, []Operation{
		at(0, 1, grant(1)), open(50, act("expire", "ok", 1)), at(2, 3, act("hand_over", "ok", 1)), at(10, 11, grant(2)),
	}},
	{"a refusal that names one who is not the holder", false, []Operation{
		at(0, 1, grant(1)), at(2, 3, act("release", "ok", 1)), at(4, 5, grant(2)), at(6, 7, refusal(1)),
		at(8, 9, act("release", "ok", 2)),
	}},
	{"a refusal that names one who never asked", false, []Operation{
		at(0, 1, Operation{Kind: "acquire", Outcome: "no", Owner: "nobody"}),
	}},
	{"a refusal by a lock that is free, on a quiet network", true, []Operation{
		at(0, 1, grant(1)), at(2, 3, act("release", "ok", 1)), at(4, 5, refusal(1)),
	}},
}

func judge(operations []Operation, calm, keepOpen bool) string {
	return check(History{Lock: "example", Calm: calm, Operations: operations}, 20*time.Second, keepOpen, "").Result
}

func TestAcceptsLegalHistories(t *testing.T) {
	for _, each := range legal {
		for _, keepOpen := range []bool{false, true} {
			if got := judge(each.operations, each.calm, keepOpen); got != "legal" {
				t.Errorf("%s (keepOpen %v): %s", each.name, keepOpen, got)
			}
		}
	}
}

func TestRejectsBrokenHistories(t *testing.T) {
	for _, each := range illegal {
		for _, keepOpen := range []bool{false, true} {
			if got := judge(each.operations, each.calm, keepOpen); got != "illegal" {
				t.Errorf("%s (keepOpen %v): %s", each.name, keepOpen, got)
			}
		}
	}
}

// random makes a history that may be legal or not, of few tokens and instants, so that everything meets everything.
func random(source *rand.Rand) []Operation {
	operations := make([]Operation, 3+source.Intn(6))
	tokens, unit := int64(1+source.Intn(3)), []int64{1, shortestLease / 3}[source.Intn(2)]
	for i := range operations {
		token, values := 1+source.Int63n(tokens), []string{"", "a", "b"}
		kinds := []Operation{
			grant(token), grant(token), refusal(token), adopt(token, token+1), read(values[source.Intn(3)]),
			act("renew", "ok", token), act("held", "ok", token), act("release", "ok", token),
			act("release", "lost", token), act("release", "unknown", token), act("expire", "ok", token),
			commit("ok", token, "a"), commit("unknown", token, "b"), commit("unknown", token, ""),
			commit("lost", token, ""), commit("lost", token, "a"),
			{Kind: "adopt", Outcome: "unknown", From: token}, adoptLost(token), overtakenAdopt(token),
		}
		call := source.Int63n(12)
		o := at(call*unit, (call+source.Int63n(6))*unit, kinds[source.Intn(len(kinds))])
		if o.Outcome == "unknown" || o.Kind == "expire" {
			o.Return = -1
		}
		operations[i] = o
	}
	return operations
}

// many is how many random histories are tried.
func many() int {
	if testing.Short() {
		return 6_000
	}
	return 60_000
}

func TestOpenOperationsMayReturnOnceOvertaken(t *testing.T) {
	source, seen := rand.New(rand.NewSource(1)), map[string]int{}
	for range many() {
		operations := random(source)
		closed, kept := judge(operations, false, false), judge(operations, false, true)
		if closed != kept {
			t.Fatalf("%s with the returns, %s without: %+v", closed, kept, operations)
		}
		seen[closed]++
	}
	if seen["legal"] < many()/60 || seen["illegal"] < many()/60 {
		t.Errorf("too few of one kind: %v", seen)
	}
}

// orders tries every order of the operations, as the definition says: slow, and with nothing of Porcupine in it.
func orders(lock Lock, rest []Operation, calm bool) bool {
	if len(rest) == 0 {
		return true
	}
	earliest := never // whatever takes effect next must have been called before all that is left has returned
	for _, o := range rest {
		if !o.Open() {
			earliest = min(earliest, o.Return)
		}
	}
	for i, o := range rest {
		if o.Call > earliest {
			continue
		}
		if possible, next := step(lock, o, calm); possible {
			others := append(append([]Operation{}, rest[:i]...), rest[i+1:]...)
			if orders(next, others, calm) {
				return true
			}
		}
	}
	return false
}

func TestAgreesWithATrialOfEveryOrder(t *testing.T) {
	source := rand.New(rand.NewSource(2))
	for range many() {
		operations, calm := random(source), source.Intn(2) == 0
		want := map[bool]string{true: "legal", false: "illegal"}[orders(Lock{}, operations, calm)]
		if got := judge(operations, calm, false); got != want {
			t.Fatalf("%s, but every order was tried: %s: %+v", got, want, operations)
		}
	}
}
