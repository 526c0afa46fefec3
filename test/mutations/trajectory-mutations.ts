import { mutationsNamed, type Mutation } from './mutation.ts'

const folder = 'packages/protocol/test/trajectory'

const mutationsOf = mutationsNamed('trajectory')

/** The token sequences that trainers get of a sample, and the documents that people read. */
export const trajectoryMutations: readonly Mutation[] = [
  ...mutationsOf(
    'packages/protocol/src/trajectory/training-sequences.ts',
    [`${folder}/training-sequences.test.ts`],
    [
      [
        'temperatures are mixed in a sequence',
        'sequence.temperature === temperature && ids',
        'ids',
      ],
      [
        'the shortest prefix is continued',
        'ids.length <= (longest?.ids.length ?? 0)',
        'ids.length >= (longest?.ids.length ?? Infinity)',
      ],
      [
        'the first prefix is continued',
        'ids.length <= (longest?.ids.length ?? 0)',
        'longest !== undefined',
      ],
      [
        'a prompt may differ from what it continues in its last token',
        'ids.every((id, at) => id === prompt[at])',
        'ids.every((id, at) => id === prompt[at] || at === ids.length - 1)',
      ],
      [
        'answers that end with tool calls are cut',
        "call.finishReason === 'length' ?",
        "(call.finishReason === 'length' || call.finishReason === 'tool_calls') ?",
      ],
      [
        'all answers but those that stop are cut',
        "call.finishReason === 'length' ?",
        "call.finishReason !== 'stop' ?",
      ],
      ['no answer is cut', "call.finishReason === 'length' ?", 'false ?'],
      [
        'calls that are no training data are trained',
        'if (!call.trainable) {',
        'if (false as boolean) {',
      ],
      ['answers without ids are not counted', '      withoutIds += 1\n', ''],
      ['calls that are no training data are not counted', '      untrainable += 1\n', ''],
      ['failed calls count as answers without ids', 'if (call.error !== null) continue', ''],
      [
        'calls are numbered without those that failed',
        'const [index, call] of calls.entries()',
        'const [index, call] of calls.filter((one) => one.error === null).entries()',
      ],
      [
        'a sequence has one version',
        'version: call.version,',
        'version: calls[0]?.version ?? null,',
      ],
      [
        'a temperature of 0 is unknown',
        "typeof temperature === 'number' ? temperature : null",
        "typeof temperature === 'number' ? temperature || null : null",
      ],
      [
        'a temperature that no request named is 1',
        "typeof temperature === 'number' ? temperature : null",
        "typeof temperature === 'number' ? temperature : 1",
      ],
      [
        'logprobs that are no numbers are trained',
        'numbers.every(Number.isFinite)',
        'numbers.length > 0',
      ],
      [
        'tokens without logprobs are trained',
        'entries.length !== call.completionTokenIds?.length',
        'entries.length > (call.completionTokenIds?.length ?? 0)',
      ],
    ],
  ),
  ...mutationsOf(
    'packages/protocol/src/trajectory/to-trajectories.ts',
    [`${folder}/documented-calls.test.ts`],
    [
      ['a removed sample is shown as kept', 'sample.removeSample ? true : null', 'null'],
      ['a kept sample is shown as removed', 'sample.removeSample ? true : null', 'true'],
      [
        'a reward of 0 is none',
        'Number.isFinite(sample.reward) ? sample.reward',
        'sample.reward ? sample.reward',
      ],
      ['totals miss the first call', 'totals(measured.map(', 'totals(measured.slice(1).map('],
      ['totals miss the last call', 'totals(measured.map(', 'totals(measured.slice(0, -1).map('],
      [
        'totals miss calls that failed',
        'totals(measured.map(',
        'totals(measured.filter(({ call }) => call.error === null).map(',
      ],
      [
        'totals miss calls that are no training data',
        'totals(measured.map(',
        'totals(measured.filter(({ call }) => call.trainable).map(',
      ],
      [
        'totals miss calls without a step',
        'totals(measured.map(',
        'totals(measured.filter(({ call }) => call.answerIndex !== null).map(',
      ],
      ['reported totals miss a call', 'totals(reported.map(', 'totals(reported.slice(0, -1).map('],
      ['reported totals are ignored', '...totals(reported.map(({ metrics }) => metrics)),', ''],
      [
        'one unknown number makes a sum unknown',
        'known.length === 0 ? null',
        'known.length < entries.length ? null',
      ],
      [
        'a sum of 0 is unknown',
        'known.length === 0 ? null',
        'known.every((value) => value === 0) ? null',
      ],
      [
        'prompt tokens count as completion tokens',
        "total_completion_tokens: sum('completion_tokens')",
        "total_completion_tokens: sum('prompt_tokens')",
      ],
      [
        'steps are the answers alone',
        'total_steps: steps.length',
        'total_steps: agentSteps.length',
      ],
      ['failed calls have no error', '...withoutNulls({ error: call.error }), ', ''],
      [
        'calls without a step are not listed',
        'without.length > 0 ? without',
        'without.length > 99 ? without',
      ],
      [
        'calls that are no training data look like the others',
        'trainable: call.trainable && wrongIdsOf(call) === undefined ? null : false,',
        '',
      ],
      [
        'calls do not say what they are for',
        "call.purpose === 'agent' ? null : call.purpose",
        'null',
      ],
    ],
  ),
  ...mutationsOf(
    'packages/protocol/src/trajectory/to-trajectories.ts',
    [`${folder}/trajectory-report.test.ts`],
    [
      [
        'reported calls are those of failed calls, too',
        'const isByCall = reported.length === answered.length',
        'const isByCall = reported.length === measured.length',
      ],
    ],
  ),
  ...mutationsOf(
    'packages/protocol/src/trajectory/to-trajectories.ts',
    [`${folder}/documented-calls.test.ts`],
    [
      [
        'a document names the model of the first answer',
        'sample.calls.findLast(',
        'sample.calls.find(',
      ],
      [
        'a step has the last of its calls',
        "if (step?.source !== 'agent' || step.metrics) {",
        "if (step?.source !== 'agent') {",
      ],
      [
        'cached tokens beside the others are not counted',
        "toCount(details['cached_tokens']) ?? toCount(usage?.['cached_tokens'])",
        "toCount(details['cached_tokens'])",
      ],
      [
        'documents do not have the settings of calls',
        '      sampling: toFields(call.sampling),\n',
        '',
      ],
      ['documents do not have the versions of calls', '      policy_version: call.version,\n', ''],
      [
        'the model of a rollout counts more than that of its sample',
        'report?.modelName ?? rollout.report?.modelName ?? answering',
        'rollout.report?.modelName ?? report?.modelName ?? answering',
      ],
      [
        'counts below 0 are counts',
        'Number.isSafeInteger(value) && (value as number) >= 0',
        'Number.isSafeInteger(value)',
      ],
      [
        'parts of tokens are counts',
        'Number.isSafeInteger(value) && (value as number) >= 0',
        '(value as number) >= 0',
      ],
    ],
  ),
  ...mutationsOf(
    'packages/protocol/src/trajectory/trajectory-report.ts',
    [`${folder}/documented-calls.test.ts`],
    [
      [
        'a lone report is that of the first of several samples',
        'otherIds.length === 0 && others.length === 0',
        'others.length === 0',
      ],
      [
        'a lone report with another name is of no sample',
        'only && otherIds.length === 0 && others.length === 0',
        'only && otherIds.length < 0',
      ],
    ],
  ),
  {
    name: 'trajectory: fewer token ids than tokens are an answer',
    file: 'packages/protocol/src/trajectory/training-sequences.ts',
    from: '  if (ids.length === counted || ids.length === counted - 1) return undefined',
    to: '  if (ids.length <= counted) return undefined',
    tests: ['packages/protocol/test/trajectory/training-sequences.test.ts'],
  },
]
