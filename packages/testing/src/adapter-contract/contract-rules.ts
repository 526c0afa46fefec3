/**
 * What every adapter promises, whatever its framework. The sentences are the names of the tests:
 * each rule has exactly one.
 */
export const contractRules = {
  'gives-sample': 'an agent that asked the policy is a sample of its rollout, under its name',
  'leaves-out-unasked': 'an agent that never asked the policy gives no sample',
  'names-unasked': 'a rollout whose agents never asked the policy fails and names them',
  'unawaited-is-no-success': 'a run that nobody awaits never succeeds without its answer',
  'carries-identity':
    'model calls carry the rollout, the sample and the key, name the policy and stream',
  'keeps-agents-apart': 'two agents in parallel never mix their ids',
  'refuses-duplicates': 'the same name twice in a rollout is an error that names it',
  'refuses-outside': 'outside of a rollout the placeholder refuses and says what to do',
  'records-conversation': 'the recorded sample is the conversation the policy had',
  'echoes-arguments': 'tool arguments go back to the policy byte for byte',
  'echoes-text-beside-calls': 'text beside tool calls goes back in the same turn',
  'echoes-parallel-calls': 'three tool calls in one turn go back in one turn',
  'names-calls': 'a tool call that came without an id has one id for everybody',
  'echoes-reasoning': 'the thinking of the policy goes back with the turn it belongs to',
  'empties-malformed-arguments': 'malformed arguments go out as {} and are recorded as they were',
  'retries-before-answer': 'a 503 before the answer is asked again',
  'refused-once': 'a 401 is asked once and fails the run as http_error',
  'stays-within-egress': 'a policy that may not be connected to fails the run and is not reached',
  'cut-is-no-answer': 'an answer that breaks off is asked once, fails the run and earns no reward',
  'keeps-failed-runs': 'a run that fails half way yields what was said until then',
  'aborts-for-real': 'an aborted run closes the socket of the policy and yields what was said',
  'ends-at-deadline': 'the deadline of a rollout ends a call that hangs',
  'never-crosses': 'many rollouts of two agents at once never cross',
} as const

/** Id of a rule of the contract. */
export type ContractRule = keyof typeof contractRules
