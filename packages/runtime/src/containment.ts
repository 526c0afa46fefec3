// Whose user code is running, and what to do when it harms the process.
export { codeLine, codePlace } from './containment/code-place.ts'
export {
  containUserCode,
  type Containment,
  type StrayOrigin,
  keepListeners,
} from './containment/contain-user-code.ts'
export { inScope, type RolloutScope } from './containment/rollout-scope.ts'
export { runOutsideRollout } from '@osmosis/core/http'
export { thrownBy } from './containment/thrown-by.ts'
export { goOnUnread } from './containment/unread-output.ts'
export { UserCode } from './containment/user-code.ts'
