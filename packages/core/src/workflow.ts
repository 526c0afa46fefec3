// How workflows, graders and their configs are recognised and checked by what runs them.
export { assertReward, assertStepRewards } from './rollout-sample.ts'
export { isAgentWorkflowClass } from './workflow/agent-workflow.ts'
export { cloneConfig, configKind, groupSettings } from './workflow/config.ts'
export { isGraderClass } from './workflow/grader.ts'
export { isGroupGraderClass } from './workflow/group-grader.ts'
