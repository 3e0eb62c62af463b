package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"vmdisk.io/vmdisk/internal/image"
	"vmdisk.io/vmdisk/internal/source"
	"vmdisk.io/vmdisk/internal/stream"
	"vmdisk.io/vmdisk/internal/target"
	"vmdisk.io/vmdisk/internal/transfer"
)

// The exit codes of every command. docs/commands.md has them, too.
const (
	exitDone            = 0
	exitFailed          = 1
	exitUsage           = 2
	exitRefused         = 3
	exitSourcePermanent = 4
	exitSourceLater     = 5
	exitTargetFull      = 6
	exitChecksum        = 7
	exitDiskNotReady    = 8
	exitDiskFailed      = 9
	exitStopped         = 130
)

// exitMeanings are the exit codes of what moves bytes in words, for help and documentation.
func exitMeanings() []exitMeaning {
	return []exitMeaning{
		{exitDone, "done"},
		{exitFailed, "anything else, such as a target that can't be written; the message says what"},
		{exitUsage, "the command line is wrong"},
		{exitRefused, "the image is refused: it can never be read by this version, or is no disk"},
		{exitSourcePermanent, "the source failed, and will again until somebody changes something"},
		{exitSourceLater, "the source failed, and may work later"},
		{exitTargetFull, "the target is too small or full"},
		{exitChecksum, "the source's bytes don't have the checksum that was given"},
		{exitStopped, "stopped by Ctrl-C or SIGTERM"},
	}
}

// statusMeanings are those of "vmdisk status".
func statusMeanings() []exitMeaning {
	return []exitMeaning{
		{exitDone, "the disk is ready, or rests until its virtual machine comes"},
		{exitFailed, "it is not known, such as where there is no such disk; the message says why"},
		{exitUsage, "the command line is wrong"},
		{exitDiskNotReady, "the disk is not ready: it is being made, or waits for something, and goes on by itself; or it is being deleted"},
		{exitDiskFailed, "the disk has failed, and stays so until somebody changes something"},
		{exitStopped, "stopped by Ctrl-C or SIGTERM"},
	}
}

type exitMeaning struct {
	code    int
	meaning string
}

// exitHelp is the table at the end of a command's help.
func exitHelp() string { return exitTable(exitMeanings()) }

func statusExitHelp() string { return exitTable(statusMeanings()) }

func exitTable(meanings []exitMeaning) string {
	var b strings.Builder
	b.WriteString("\n\nExit codes:\n")
	for _, m := range meanings {
		fmt.Fprintf(&b, "  %3d  %s\n", m.code, m.meaning)
	}
	return strings.TrimRight(b.String(), "\n")
}

// usageError is a command line that makes no sense.
type usageError struct{ message string }

func (e *usageError) Error() string { return e.message }

func usage(format string, args ...any) error { return &usageError{fmt.Sprintf(format, args...)} }

// exitCode is the one place where an error becomes an exit code.
func exitCode(err error) int {
	var (
		misused  *usageError
		state    *stateExit
		checksum *stream.ChecksumError
		refused  *image.Refused
		to       *target.Error
		from     *source.Error
	)
	switch {
	case err == nil:
		return exitDone
	case errors.As(err, &misused):
		return exitUsage
	case errors.As(err, &state):
		return state.code
	case errors.Is(err, context.Canceled):
		return exitStopped
	case errors.As(err, &checksum):
		return exitChecksum
	case errors.As(err, &refused) && refused.Reason == transfer.LargerThanDisk,
		errors.As(err, &to) && (to.Reason == target.NoSpace || to.Reason == target.FilesystemTooSmall || to.Reason == target.DeviceTooSmall):
		return exitTargetFull
	case refused != nil:
		return exitRefused
	case to != nil:
		return exitFailed
	case errors.As(err, &from) && (from.Reason == source.InvalidURL || from.Reason == source.InvalidHeader || from.Reason == source.InvalidCA):
		return exitUsage
	case from != nil && from.Permanent:
		return exitSourcePermanent
	case from != nil:
		return exitSourceLater
	default:
		return exitFailed
	}
}

// explain is the error as the person at the command line reads it.
func explain(err error) string {
	var (
		checksum *stream.ChecksumError
		to       *target.Error
		panicked *transfer.Panic
		refused  *image.Refused
	)
	switch {
	case errors.Is(err, context.Canceled):
		return "stopped before it was done"
	case errors.As(err, &refused) && refused.Reason == image.NeedsRandomAccess:
		return err.Error() + ", or let convert keep it on a disk with --scratch DIR"
	case errors.As(err, &checksum):
		return checksum.Error() + ": the file at the source is not the one that you expected, or the checksum is of another version"
	case errors.As(err, &to) && to.Reason == target.Permission:
		return fmt.Sprintf("%v: run this as a user who may write there, such as root", to.Err)
	case errors.As(err, &panicked):
		return fmt.Sprintf("vmdisk failed by a fault of its own: please report this.\n%v\n%s", panicked, panicked.Stack)
	default:
		return err.Error()
	}
}

// arguments wants exactly the named arguments.
func arguments(names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) == len(names) {
			return nil
		}
		wanted := strings.Join(names, " and ")
		if wanted == "" {
			wanted = "nothing"
		}
		return usage("%s takes %s, and got %d arguments: see '%s --help'", cmd.CommandPath(), wanted, len(args), cmd.CommandPath())
	}
}
