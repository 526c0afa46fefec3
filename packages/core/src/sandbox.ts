export { LocalSandbox, type LocalSandboxOptions } from './sandbox/local-sandbox.ts'
export { type GroupOptions, spawnInGroup } from './sandbox/process-group.ts'
export {
  type ExecOptions,
  type ExecResult,
  LimitedOutput,
  type Sandbox,
  sandboxLimits,
  type SandboxLimits,
} from './sandbox/sandbox.ts'
