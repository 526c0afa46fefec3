// Whose user code is running, and what to do when it harms the process.
export {
  endWhenBlocked,
  exitDespiteThreads,
  FileSystemWatch,
} from './containment/blocked-threads.ts'
export {
  containUserCode,
  ignoreBrokenPipe,
  type Containment,
  type StrayOrigin,
  keepListeners,
} from './containment/contain-user-code.ts'
export { codeLine, codePlace, thrownBy } from './containment/error-place.ts'
export { runInRollout, type RolloutScope, UserCode } from './containment/user-code.ts'
