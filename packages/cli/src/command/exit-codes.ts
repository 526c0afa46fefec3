/** The exit code for invalid flags, configs, entrypoints and datasets. */
export const wrongUseCode = 2

/** The exit code when a gate that flags set has failed: `--min-pass-rate`, `--fail-if-worse`, `--fail-on-open`. */
export const gateFailedCode = 3

/** The exit code that shells expect of a program that Ctrl-C ended. */
export const interruptedExitCode = 130
