import type { Mutation } from './mutation.ts'

const scores = { tests: ['packages/core/test/scores'] }
const lastText = {
  file: 'packages/core/src/answer/last-assistant-text.ts',
  tests: ['packages/core/test/workflow/last-assistant-text.test.ts'],
}
const numbers = { tests: ['packages/core/test/scores/numeric.test.ts'] }

/** What is rewarded, and what rewards are read from. */
export const rewardMutations: readonly Mutation[] = [
  {
    name: 'an en dash before a number is no sign',
    file: 'packages/core/src/scores/number/number-grammar.ts',
    from: 'const minus = String.raw`\\-−–`',
    to: 'const minus = String.raw`\\-−`',
    ...numbers,
  },
  {
    name: 'the exponent of a unit is read as a number',
    file: 'packages/core/src/scores/number/number-grammar.ts',
    from: '[\\p{L}\\p{N}.]{1,9})`',
    to: '[\\p{L}.]{1,9})`',
    ...numbers,
  },
  {
    name: 'a part of a number with a decimal comma is read',
    file: 'packages/core/src/scores/number/number-grammar.ts',
    from: "(?![.,'’_:]?\\d|",
    to: "(?![.'’_:]?\\d|",
    ...numbers,
  },
  {
    name: 'the whole of a mixed number is lost',
    file: 'packages/core/src/scores/number/exact-number.ts',
    from: 'BigInt(units) * value.below + value.above',
    to: 'value.above',
    ...numbers,
  },
  {
    name: 'a label with a number in it is taken for one',
    file: 'packages/core/src/scores/numeric.ts',
    from: 'const found = wholeNumber(boxed, notation)',
    to: 'const found = lastNumber(boxed, notation)',
    ...numbers,
  },
  {
    name: 'a number somewhere in a box is the answer',
    file: 'packages/core/src/scores/numeric.ts',
    from: ': wholeNumber(box, options)',
    to: ': lastNumber(box, options)',
    ...numbers,
  },
  {
    name: 'code of another language is read as JSON',
    file: 'packages/core/src/scores/last-json.ts',
    from: "lastBlock(answer.replaceAll(fence, '\\n'), options) ??",
    to: '',
    ...scores,
  },
  {
    name: 'JSON behind the fence of another language is not found',
    file: 'packages/core/src/scores/last-json.ts',
    from: '(?<language>[^\\s`~]+)(?![^\\s`~]))?[^\\n`~]*\\n',
    to: '(?<language>json))?[^\\S\\n]*\\n',
    ...scores,
  },
  {
    name: 'a part of a list that was cut off is the answer',
    file: 'packages/core/src/scores/last-json.ts',
    from: 'return isCutOff(text, open) ? [] : found',
    to: 'return found',
    ...scores,
  },
  {
    name: 'integers beyond 2^53 are rounded before they are compared',
    file: 'packages/core/src/scores/json.ts',
    from: 'const exact = { exactIntegers: true }',
    to: 'const exact = { exactIntegers: false }',
    ...scores,
  },
  {
    name: 'a test that was not run is a passed one',
    file: 'packages/core/src/scores/unit-tests.ts',
    from: 'if (isSkipped && !hasFailed) continue',
    to: '',
    ...scores,
  },
  {
    name: 'a judge that writes about tags of thinking has no reply',
    file: 'packages/core/src/answer/thinking.ts',
    from: "if (slash === undefined) continue\n    if (slash === '/') {",
    to: "if (slash !== '') {",
    tests: ['packages/models/test/evaluate-rubric.test.ts'],
  },
  {
    name: 'what the policy said before an empty answer is its answer',
    ...lastText,
    from: "if (text !== '' || !(hasCalled || callsTools(message))) return text",
    to: "if (text !== '') return text",
  },
  {
    name: 'thinking that was cut off is the answer',
    file: 'packages/core/src/answer/thinking.ts',
    from: 'if (end.exec(text) === null) return kept.trim()',
    to: 'if (end.exec(text) === null) return text',
    tests: lastText.tests,
  },
  {
    name: 'text beside a refusal is the answer',
    ...lastText,
    from: "if (typeof refusal === 'string' && refusal !== '') return ''",
    to: '',
  },
  {
    name: 'a row without a label has an empty one',
    file: 'packages/core/src/scores/reference.ts',
    from: "reference('ctx.requireLabel()', label)\n",
    to: '',
    tests: ['packages/server/test/execution/outcomes.test.ts'],
  },
  {
    name: 'labels are not checked before an evaluation',
    file: 'packages/core/src/workflow/metadata-schema.ts',
    from: "...(await problemsOf('label', graderConfig?.label, label)),",
    to: '',
    tests: ['packages/cli/test/typed-rows.test.ts'],
  },
  {
    name: 'the plan does not count rows without an answer',
    file: 'packages/cli/src/eval/run/run-output.ts',
    from: "label ?? '').trim() === ''",
    to: "label ?? '').trim() === '-'",
    tests: ['packages/cli/test/typed-rows.test.ts'],
  },
  {
    name: 'a grader that pays for any answer is not found where rows have none',
    file: 'packages/eval/src/audit/audit-run.ts',
    from: "'no-label': paysAnyAnswer ? missingLabel(read) : undefined,",
    to: "'no-label': undefined,",
    tests: ['packages/cli/test/eval-audit.test.ts'],
  },
  {
    name: 'a limit of turns is a failure',
    file: 'packages/server/src/execution/workflow-phase.ts',
    from: '  const fault = policyFaultIn(error)',
    to: '  const fault = policyFaultIn(undefined)',
    tests: ['packages/openai-agents/test/adapter-contract.test.ts'],
  },
  {
    name: 'a failed model call that a framework reports as a bad answer is graded',
    file: 'packages/server/src/execution/workflow-phase.ts',
    from: "  const hasFailed = name === 'model_error' && calls.at(-1)?.error !== null",
    to: '  const hasFailed = false',
    tests: ['packages/server/test/execution/policy-faults.test.ts'],
  },
  {
    name: 'policyFaults: fail grades',
    file: 'packages/server/src/execution/workflow-phase.ts',
    from: "  if (!isOfRun || settings.policyFaults === 'fail') return undefined",
    to: '  if (!isOfRun) return undefined',
    tests: ['packages/server/test/execution/policy-faults.test.ts'],
  },
]
