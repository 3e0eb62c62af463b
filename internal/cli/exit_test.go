package cli

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

func TestTheExitCodesAreInTheHelpAndTheDocs(t *testing.T) {
	docs, err := os.ReadFile("../../docs/commands.md")
	if err != nil {
		t.Fatal(err)
	}
	for command, meanings := range map[string][]exitMeaning{
		"convert": exitMeanings(), "inspect": exitMeanings(), "map": exitMeanings(), "status": statusMeanings(),
	} {
		help := runHere(t, nil, command, "--help").Stdout
		for _, m := range meanings {
			if row := fmt.Sprintf("  %3d  %s\n", m.code, m.meaning); !strings.Contains(help, row) {
				t.Errorf("the help of %s lacks %q", command, row)
			}
			if row := fmt.Sprintf("| %d | %s |\n", m.code, m.meaning); !strings.Contains(string(docs), row) {
				t.Errorf("the docs lack %q", row)
			}
		}
	}
}
