export { LocalSandbox, type LocalSandboxOptions } from './sandbox/local-sandbox.ts'
export type { ExecOptions, ExecResult, Sandbox, SandboxLimits } from './sandbox/sandbox.ts'
