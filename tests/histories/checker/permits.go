package main

import (
	"fmt"
	"slices"

	"github.com/anishathalye/porcupine"
)

// Share is what one hold has of a semaphore. Over: its holder was promised nothing any more, but nobody has released it.
type Share struct {
	Token, Take int64
	Over        bool
}

// Permits is the state of a semaphore: its holds by token, and the highest token that was granted.
//
// There is one hold for each token, whatever attempts resume it. It has its permits from its grant to its release, or
// to the last promise that its newest attempt was given. From then on it may be gone, so it counts no more. A release
// of unknown outcome is taken as the end of the promise, because it may have been carried out at once. Hence no
// operation stays open.
type Permits struct {
	Highest int64
	Shares  []Share
}

func (p Permits) of(token int64) (Share, bool) {
	at := slices.IndexFunc(p.Shares, func(each Share) bool { return each.Token == token })
	if at < 0 {
		return Share{}, false
	}
	return p.Shares[at], true
}

// with gives the state after a hold's share has changed. A share without a token: the hold is gone.
func (p Permits) with(token int64, share Share) Permits {
	next := Permits{Highest: max(p.Highest, token)}
	for _, each := range p.Shares {
		if each.Token != token {
			next.Shares = append(next.Shares, each)
		}
	}
	if share.Token != 0 {
		next.Shares = append(next.Shares, share)
		slices.SortFunc(next.Shares, func(a, b Share) int { return int(a.Token - b.Token) })
	}
	return next
}

// taken is the sum of what all holds but this one were promised.
func (p Permits) taken(but int64) (sum int64) {
	for _, each := range p.Shares {
		if !each.Over && each.Token != but {
			sum += each.Take
		}
	}
	return sum
}

// share carries out an operation on a semaphore with so many permits.
func share(p Permits, o Operation, permits int64) (bool, Permits) {
	mine, there := p.of(o.Token)
	counts := there && !mine.Over
	switch o.Kind + " " + o.Outcome {
	case "acquire ok", "resume ok":
		fits := o.Take > 0 && p.taken(o.Token)+o.Take <= permits
		isNew := !there && o.Token > p.Highest
		// An attempt of a holder may be the first one that is told of a hold, long after it was granted.
		goesOn := o.Resumed && (!there || mine.Take == o.Take)
		return fits && (isNew || goesOn), p.with(o.Token, Share{o.Token, o.Take, false})
	case "held ok", "renew ok":
		return counts || o.Resumed, p
	case "renew lost", "hand_over lost", "release lost":
		return !counts || o.Resumed, p
	case "release ok":
		return there || o.Resumed, p.with(o.Token, Share{})
	case "release unknown", "expire ok":
		if there {
			mine.Over = true
			p = p.with(o.Token, mine)
		}
		return true, p
	}
	panic(fmt.Sprintf("the history of a semaphore has an operation that the model does not know: %+v", o))
}

func modelOfPermits(permits int64) porcupine.Model {
	return porcupine.Model{
		Init: func() interface{} { return Permits{} },
		Step: func(state, input, _ interface{}) (bool, interface{}) {
			return share(state.(Permits), input.(Operation), permits)
		},
		Equal: func(a, b interface{}) bool {
			one, other := a.(Permits), b.(Permits)
			return one.Highest == other.Highest && slices.Equal(one.Shares, other.Shares)
		},
		DescribeOperation: func(input, _ interface{}) string { return describe(input.(Operation)) },
		DescribeState: func(state interface{}) string {
			return fmt.Sprintf("%d of %d taken: %v", state.(Permits).taken(0), permits, state.(Permits).Shares)
		},
	}
}
