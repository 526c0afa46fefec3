/** What every backend promises, wherever user code runs. Each rule has exactly one case. */
export const backendRules = {
  'tells-phases':
    'an observer hears of each phase, then of its outcome, and of the samples between',
  'skips-phases': 'phases that are skipped are not reported, and nobody grades unasked',
  'waits-before-asking':
    'an observer is waited for once, before the first model call leaves, and may refuse it',
  'fails-workflows': 'a workflow that fails does so with its text, category and cause, twice',
  'fails-gradings': 'a grading that fails keeps the samples without a reward',
  'names-what-is-missing': 'what cannot be graded says what is missing',
  'keeps-samples': 'samples are reported as they are, and as the grader left them',
  'survives-uncloneable': 'what cannot leave a process costs no more than itself',
  'keeps-calls': 'a conversation that cannot be sent costs no model call of its sample',
  'keeps-removed': 'a sample that is removed needs no reward',
  'keeps-conversations': 'samples have the conversation and the calls of their agent',
  'keeps-steps':
    'a grader may say what each answered model call was worth, and no other number of them',
  'asks-as-wired':
    'the policy is asked as the request says, and what it gives to learn from is kept',
  'knows-groups': 'workflow and grader see the group of the rollout',
  'keeps-partial': 'a workflow that fails shows what was said until then',
  warns: 'what looks wrong but fails nothing is a warning',
  'ends-workflows': 'the deadline of a workflow holds, whatever its code does',
  'ends-withdrawn':
    'a policy route that was its own and is gone ends a rollout, whatever its code does',
  'counts-queue': 'time in the queue is part of the deadline, and the text names it',
  'ends-graders': 'the deadline of a grader is its own, and keeps the samples',
  'cancels-workflows':
    'cancelling ends what is queued and what runs, says which was which, and why',
  'cancels-between': 'cancelling while a controller is waited for fails the grading only',
  'cancels-gradings': 'cancelling ends a grading, and the workflow stays a success',
  'selects-rollouts': 'rollouts are selected by id, prefix, or all of them',
  'holds-slots': 'slots are handed out in order, held by workflows alone, and make a queue full',
  'holds-grader-slots': 'graders have slots of their own',
  'knows-states': 'the state of a rollout is known while it runs and when it has ended',
  'repeats-ids': 'an id may be used again when its rollout has ended, or waits for its controller',
  'shuts-down': 'a shutdown fails what is in progress with that reason',
} as const

/** Id of a rule of the contract. */
export type BackendRule = keyof typeof backendRules
