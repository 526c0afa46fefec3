// For backends, which recognise and check workflows, graders and their configs.
export { assertReward, assertStepRewards } from './rollout-sample.ts'
export { requireLabel } from './scores/reference.ts'
export { isAgentWorkflowClass } from './workflow/agent-workflow.ts'
export { cloneConfig, configKind, groupSettings } from './workflow/config.ts'
export { overrideConfig } from './workflow/override-config.ts'
export { isGraderClass } from './workflow/grader.ts'
export { isGroupGraderClass } from './workflow/group-grader.ts'
