export { LocalSandbox, type LocalSandboxOptions } from './sandbox/local-sandbox.ts'
export { type GroupOptions, spawnInGroup } from './sandbox/process-group.ts'
export { openBelow, tooLarge } from './sandbox/regular-file.ts'
export {
  type ExecOptions,
  type ExecResult,
  LimitedOutput,
  type ReadOptions,
  type Sandbox,
  sandboxLimits,
  type SandboxLimits,
} from './sandbox/sandbox.ts'
