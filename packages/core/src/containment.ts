// Whose user code is running, and what to do when it harms the process: for the other `@osmosis`
// packages. Not part of the promised API: names here may change in any version.
export { codeLine, codePlace } from './containment/code-place.ts'
export {
  containUserCode,
  type Containment,
  type StrayOrigin,
} from './containment/contain-user-code.ts'
export { keepListeners } from './containment/keep-listeners.ts'
export { inScope, type RolloutScope } from './containment/rollout-scope.ts'
export { outsideOfRollouts } from './http/outside-of-rollouts.ts'
export { thrownBy } from './containment/thrown-by.ts'
export { goOnUnread } from './containment/unread-output.ts'
export { UserCode } from './containment/user-code.ts'
