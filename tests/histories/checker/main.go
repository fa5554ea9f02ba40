// Checks recorded histories with Porcupine: `checker [-timeout 60s] [-draw folder] < histories.jsonl`.
//
// Each line of the input is a History. The output is one JSON object. The exit status is 0 if every history is legal.
package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"sort"
	"strings"
	"sync"
	"time"

	"github.com/anishathalye/porcupine"
)

// Verdict is what the checker says of one history.
type Verdict struct {
	Lock       string   `json:"lock"`
	Operations int      `json:"operations"`
	Result     string   `json:"result"` // legal, illegal, undecided
	Seconds    float64  `json:"seconds"`
	Trace      []string `json:"trace,omitempty"`   // of an illegal one: the end of the longest order, and what did not fit
	Drawing    string   `json:"drawing,omitempty"` // of an illegal one: a page for a browser
}

// Report is the output. Only the histories that are not legal are listed, unless all are asked for.
type Report struct {
	Histories  int       `json:"histories"`
	Operations int       `json:"operations"`
	Legal      int       `json:"legal"`
	Illegal    int       `json:"illegal"`
	Undecided  int       `json:"undecided"`
	Slowest    float64   `json:"slowest"`
	Listed     []Verdict `json:"listed"`
}

func check(history History, timeout time.Duration, keepOpen bool, folder string) Verdict {
	started := time.Now()
	m, operations := modelOf(history), events(history, keepOpen)
	result := porcupine.CheckOperationsTimeout(m, operations, timeout)
	verdict := Verdict{Lock: history.Lock, Operations: len(operations)}
	switch result {
	case porcupine.Ok:
		verdict.Result = "legal"
	case porcupine.Unknown:
		verdict.Result = "undecided"
	default:
		verdict.Result = "illegal"
		if folder != "" {
			_, info := porcupine.CheckOperationsVerbose(m, operations, timeout)
			verdict.Trace = trace(operations, info)
			path := filepath.Join(folder, strings.ReplaceAll(history.Lock, "/", "_")+".html")
			if err := porcupine.VisualizePath(m, info, path); err == nil {
				verdict.Drawing = path
			}
		}
	}
	verdict.Seconds = time.Since(started).Seconds()
	return verdict
}

// trace tells the end of the longest order that Porcupine found, and the operations that come next by their calls.
func trace(operations []porcupine.Operation, info porcupine.LinearizationInfo) []string {
	const before, after = 8, 6
	var longest []int
	for _, partition := range info.PartialLinearizations() {
		for _, order := range partition {
			if len(order) > len(longest) {
				longest = order
			}
		}
	}
	zero := operations[0].Call
	for _, o := range operations {
		zero = min(zero, o.Call)
	}
	line := func(o porcupine.Operation) string {
		end := fmt.Sprintf("%.4f", float64(o.Return-zero)/1e9)
		if o.Return == never {
			end = "open"
		}
		return fmt.Sprintf("%9.4f .. %9s  client %3d  %s", float64(o.Call-zero)/1e9, end, o.ClientId, describe(o.Input.(Operation)))
	}
	lines := []string{"the longest order that is legal ends with"}
	inOrder := map[int]bool{}
	for place, id := range longest {
		inOrder[id] = true
		if place >= len(longest)-before {
			lines = append(lines, line(operations[id]))
		}
	}
	var rest []int
	for id := range operations {
		if !inOrder[id] {
			rest = append(rest, id)
		}
	}
	sort.Slice(rest, func(a, b int) bool { return operations[rest[a]].Return < operations[rest[b]].Return })
	lines = append(lines, "and no order continues with these")
	for place, id := range rest {
		if place < after {
			lines = append(lines, line(operations[id]))
		}
	}
	return lines
}

func main() {
	timeout := flag.Duration("timeout", time.Minute, "for each history; one that takes longer is undecided")
	folder := flag.String("draw", "", "a folder for traces and drawings of illegal histories")
	all := flag.Bool("all", false, "list legal histories, too")
	keepOpen := flag.Bool("keep-open", false, "let open operations never return (slow; the verdicts are the same)")
	flag.Parse()

	histories, verdicts := make(chan History), make(chan Verdict)
	go func() {
		input := bufio.NewReaderSize(os.Stdin, 1<<20)
		decoder := json.NewDecoder(input)
		decoder.DisallowUnknownFields()
		for decoder.More() {
			var history History
			if err := decoder.Decode(&history); err != nil {
				fmt.Fprintln(os.Stderr, "not a history:", err)
				os.Exit(2)
			}
			histories <- history
		}
		close(histories)
	}()
	var workers sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		workers.Add(1)
		go func() {
			defer workers.Done()
			for history := range histories {
				verdicts <- check(history, *timeout, *keepOpen, *folder)
			}
		}()
	}
	go func() { workers.Wait(); close(verdicts) }()

	report := Report{Listed: []Verdict{}}
	for verdict := range verdicts {
		report.Histories++
		report.Operations += verdict.Operations
		report.Slowest = max(report.Slowest, verdict.Seconds)
		switch verdict.Result {
		case "legal":
			report.Legal++
		case "illegal":
			report.Illegal++
		default:
			report.Undecided++
		}
		if *all || verdict.Result != "legal" {
			report.Listed = append(report.Listed, verdict)
		}
	}
	sort.Slice(report.Listed, func(a, b int) bool { return report.Listed[a].Lock < report.Listed[b].Lock })
	output, err := json.MarshalIndent(report, "", "  ")
	if err != nil {
		panic(err)
	}
	fmt.Println(string(output))
	if report.Legal != report.Histories {
		os.Exit(1)
	}
}
