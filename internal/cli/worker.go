package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"vmdisk.io/vmdisk/internal/job"
	"vmdisk.io/vmdisk/internal/worker"
)

// workerOptions are what the worker command is made with.
type workerOptions struct {
	spec       string // JSON
	resultPath string
	stdout     io.Writer
	stderr     io.Writer
}

// newWorkerCommand is the command that runs in a worker's pod.
func newWorkerCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "worker",
		Short: "Fill one disk, as the controller has asked (runs in a worker's pod)",
		Long: "Fill one disk, as the job in the environment variable " + job.SpecEnv + " says. Progress is printed as JSON\n" +
			"lines; the result is written to " + job.ResultPath + ", or printed where that doesn't exist.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runWorker(cmd.Context(), workerOptions{
				spec: os.Getenv(job.SpecEnv), resultPath: job.ResultPath, stdout: cmd.OutOrStdout(), stderr: cmd.ErrOrStderr(),
			})
		},
	}
}

// runWorker runs a job and leaves its Result. It answers an error unless the job has succeeded.
func runWorker(ctx context.Context, o workerOptions) error {
	result := job.Result{Outcome: job.Broken, Reason: "InvalidJob"}
	if spec, err := job.ParseSpec(o.spec); err != nil {
		result.Message = err.Error()
	} else {
		result = worker.Run(ctx, spec, worker.Options{Stdout: o.stdout, Stderr: o.stderr})
	}
	if err := leaveResult(result, o); err != nil {
		return err
	}
	if result.Outcome != job.Succeeded {
		return fmt.Errorf("the disk was not filled: %s: %s", result.Reason, result.Message)
	}
	return nil
}

// leaveResult writes the Result where the kubelet looks for it. That file exists in a pod and is not made elsewhere.
func leaveResult(result job.Result, o workerOptions) error {
	f, err := os.OpenFile(o.resultPath, os.O_WRONLY|os.O_TRUNC, 0)
	if errors.Is(err, os.ErrNotExist) {
		_, err = fmt.Fprintf(o.stdout, "%s\n", result.Encode())
		return err
	}
	if err != nil {
		return fmt.Errorf("open %s: %w", o.resultPath, err)
	}
	_, err = f.Write(result.Encode())
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("write the result to %s: %w", o.resultPath, err)
	}
	return nil
}
