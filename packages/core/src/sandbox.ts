export { LocalSandbox, type LocalSandboxOptions } from './sandbox/local-sandbox.ts'
export { type GroupOptions, spawnInGroup } from './sandbox/process-group.ts'
export type { ExecOptions, ExecResult, Sandbox, SandboxLimits } from './sandbox/sandbox.ts'
