import { mutationsNamed, type Mutation } from './mutation.ts'

const policy = 'packages/core/test/policy'
const server = 'packages/server/test/execution'

const mutationsOf = mutationsNamed('record')

/** The record of model calls, and what limits and withdrawals do to them. */
export const recordMutations: readonly Mutation[] = [
  ...mutationsOf(
    'packages/core/src/policy/answer-constraints.ts',
    [`${policy}/recorded-calls.test.ts`],
    [
      ['every tool is a constraint', 'tools.some(isStrict)', 'tools.length > 0'],
      ['a forced tool is no constraint', "isForced ? ['tool_choice'] : []", '[]'],
      ['every response format is a constraint', " && type !== 'text'", ''],
    ],
  ),
  ...mutationsOf(
    'packages/core/src/policy/policy-wire.ts',
    [`${policy}/recorded-calls.test.ts`],
    [
      ['calls have no settings', 'samplingNames.has(name) && value', 'false && value'],
      ['calls have settings of any kind', 'samplingNames.has(name) && value', 'value'],
      [
        'settings that are null are recorded',
        'value !== undefined && value !== null) sampling',
        'value !== undefined) sampling',
      ],
      [
        'calls do not name what holds their answer to a form',
        'if (constraints.length > 0)',
        'if (false)',
      ],
      ['temperatures are not recorded', "  'temperature',\n", ''],
      ['seeds are not recorded', "  'seed',\n", ''],
      ['limits of tokens are not recorded', "  'max_completion_tokens',\n", ''],
      ['settings of templates are not recorded', "  'chat_template_kwargs',\n", ''],
      [
        'a name that never changes is a version',
        "typeof model === 'string' && /(?:^|\\/)policy-\\d+$/.test(model) ? model",
        "typeof model === 'string' && model !== policyModelName ? model",
      ],
      ['requests name no version', 'model: versionIn(model) }', 'model: null }'],
      [
        "the agent's limit of tokens stays beside that of the trainer",
        'if (!tokenLimits.some((name) => name in body)) return request',
        'return request',
      ],
      [
        'settings of the agent win over those of the trainer',
        '    ...withoutTokenLimits(request, body),\n    ...body,',
        '    ...body,\n    ...withoutTokenLimits(request, body),',
      ],
    ],
  ),
  ...mutationsOf(
    'packages/core/src/policy/policy-client.ts',
    [`${policy}/recorded-calls.test.ts`],
    [
      [
        'the settings that the agent asked for are recorded',
        'aboutCall(settings, use)',
        'aboutCall(request, use)',
      ],
    ],
  ),
  ...mutationsOf(
    'packages/core/src/policy/call-log.ts',
    [`${policy}/recorded-calls.test.ts`],
    [
      [
        'weights of SGLang are ignored',
        'weightVersion(completion) ?? versionIn(model)',
        'versionIn(model)',
      ],
      [
        'the model that answered is less than the one that was asked',
        'weightVersion(completion) ?? versionIn(model) ?? about.model',
        'weightVersion(completion) ?? about.model ?? versionIn(model)',
      ],
      [
        'the model that was asked is no version',
        'versionIn(model) ?? about.model',
        'versionIn(model)',
      ],
      [
        'the first weights of SGLang are a version',
        "typeof version === 'string' && version !== 'default'",
        "typeof version === 'string'",
      ],
      ['settings are not recorded', '      sampling: about.sampling,', '      sampling: {},'],
    ],
  ),
  ...mutationsOf(
    'packages/core/src/policy/policy-client.ts',
    [`${policy}/policy-client.test.ts`],
    [
      [
        'an abort behind the last chunk gives an answer',
        '      // An aborted connection can look like an ordinary end of the answer.\n      call.signal.throwIfAborted()\n',
        '',
      ],
    ],
  ),
  ...mutationsOf(
    'packages/core/src/policy/policy-client.ts',
    [`${policy}/auxiliary-calls.test.ts`],
    [
      [
        'calls that are no training data go to the policy',
        'const isOwn = use.trainable || auxiliaryUrl === undefined',
        'const isOwn = true',
      ],
      [
        'all calls go to the auxiliary URL',
        'const isOwn = use.trainable || auxiliaryUrl === undefined',
        'const isOwn = auxiliaryUrl === undefined',
      ],
    ],
  ),
  ...mutationsOf(
    'packages/core/src/policy/policy-wire.ts',
    [`${policy}/auxiliary-calls.test.ts`],
    [
      [
        'a header that says that a call is no training data is ignored',
        'use = { ...use, trainable: toBoolean(value) }',
        'use = { ...use, trainable: true }',
      ],
      [
        'headers win over options',
        'if (trainable !== undefined) use',
        'if (trainable !== undefined && use === agentUse) use',
      ],
      [
        'an endpoint does not know which calls are no training data',
        "...(trainable ? {} : { [trainableHeader]: 'false' })",
        '...{}',
      ],
    ],
  ),
  ...mutationsOf(
    'packages/core/src/policy/call-log.ts',
    [`${server}/unasked-agents.test.ts`],
    [
      [
        'a call that its caller has just aborted is one that somebody waits for',
        'about.trainable && settled === undefined && signal?.aborted !== true',
        'about.trainable && settled === undefined',
      ],
      [
        'an only answer that nobody read is a sample',
        ' && settled !== undefined && !wasLeft',
        ' && settled !== undefined',
      ],
    ],
  ),
  ...mutationsOf(
    'packages/core/src/policy/call-log.ts',
    [`${policy}/auxiliary-calls.test.ts`],
    [
      [
        'calls that are no training data are branches',
        '    if (about.trainable) {\n      extendsPrevious',
        '    if (true as boolean) {\n      extendsPrevious',
      ],
      [
        'the first call of the agent behind one that is no training data is a branch',
        'extendsPrevious = !this.#hasTrainable',
        'extendsPrevious = this.#calls.length === 0',
      ],
      [
        'what the agent continues may be an answer that is no training data',
        'if (about.trainable) this.#logged.end.isTip = true',
        'this.#logged.end.isTip = true',
      ],
      [
        'the conversation of a sample is the latest, whatever it is for',
        'if (!trainable) return 2',
        'if (!trainable) return 0',
      ],
    ],
  ),
  ...mutationsOf(
    'packages/core/src/policy/ongoing-call.ts',
    [`${policy}/limits-and-withdrawal.test.ts`],
    [
      [
        'tokens never reach the limits of a rollout',
        'this.#options.budget?.spend(completion.usage)',
        '',
      ],
      [
        'only whole answers are counted',
        'this.#options.budget?.spend(completion.usage)',
        'if (this.#options.answered === undefined) this.#options.budget?.spend(completion.usage)',
      ],
      [
        'an answer that the agent does not read to its end costs nothing',
        '      this.succeed(this.answer)\n',
        '      this.#end(undefined)\n',
      ],
      [
        'calls with a signal of their own go on when the rollout has ended',
        'AbortSignal.any([signal, own])',
        'own',
      ],
    ],
  ),
  ...mutationsOf(
    'packages/core/src/policy/policy-client.ts',
    [`${policy}/limits-and-withdrawal.test.ts`],
    [
      ['calls are not counted', '    budget?.begin()\n', ''],
      [
        'a rollout is not told that it was withdrawn',
        '    this.#route.onWithdrawn?.(reason)\n',
        '',
      ],
      [
        'no rollout is withdrawn',
        'return this.#wire.ownRoute === true && isGone(error)',
        'return false',
      ],
      [
        'a rollout whose URL is shared is withdrawn',
        'return this.#wire.ownRoute === true && isGone(error)',
        'return isGone(error)',
      ],
      [
        '410 is no withdrawal',
        '(error.status === 404 || error.status === 410)',
        'error.status === 404',
      ],
      [
        '404 is no withdrawal',
        '(error.status === 404 || error.status === 410)',
        'error.status === 410',
      ],
      [
        'any refusal is a withdrawal',
        '(error.status === 404 || error.status === 410)',
        '(error.status ?? 0) < 500',
      ],
    ],
  ),
  ...mutationsOf(
    'packages/core/src/workflow/rollout-limits.ts',
    [`${policy}/limits-and-withdrawal.test.ts`],
    [
      [
        'prompt tokens do not count',
        'this.#used.totalTokens += prompt + completion',
        'this.#used.totalTokens += completion',
      ],
      [
        'completion tokens do not count',
        'this.#used.totalTokens += prompt + completion',
        'this.#used.totalTokens += prompt',
      ],
      [
        'the last call alone counts',
        'this.#used.totalTokens += prompt + completion',
        'this.#used.totalTokens = prompt + completion',
      ],
      [
        'prices are exchanged',
        'prompt * price.prompt + completion * price.completion',
        'prompt * price.completion + completion * price.prompt',
      ],
      [
        'limits of tokens are not looked at',
        "['modelCalls', 'totalTokens', 'costUsd'] as const",
        "['modelCalls', 'costUsd'] as const",
      ],
      ['a limit has to be exceeded', 'this.#used[limit] >= (this', 'this.#used[limit] > (this'],
      [
        'limits of tokens are not counted without one of costs',
        'if (totalTokens === undefined && costUsd === undefined) return',
        'if (costUsd === undefined) return',
      ],
      ['reaching a limit does not end the rollout', '    this.#end(reason)\n', ''],
    ],
  ),
  ...mutationsOf(
    'packages/server/src/execution/workflow-phase.ts',
    [`${server}/withdrawn-calls.test.ts`],
    [
      [
        'a withdrawn rollout goes on calling',
        'onWithdrawn: (reason) => live.end(reason),',
        'onWithdrawn: () => {},',
      ],
    ],
  ),
  ...mutationsOf(
    'packages/core/src/policy/call-log.ts',
    [`${policy}/auxiliary-calls.test.ts`],
    [
      [
        'other training data of a sample is its conversation',
        'return purpose === agentUse.purpose ? 0 : 1',
        'return 0',
      ],
      [
        'a sample without training data has some',
        'about.trainable && settled !== undefined && !wasLeft',
        'settled !== undefined && !wasLeft',
      ],

      [
        'answers that are no training data are trained',
        'if (about.trainable && settled?.error === null) trained.add(end)',
        'if (settled?.error === null) trained.add(end)',
      ],
      [
        'what failed calls asked is trained',
        'if (about.trainable && settled?.error === null) trained.add(end)',
        'if (about.trainable) trained.add(end)',
      ],
      [
        'conversations of training data end where others end',
        'endsOf(this.#calls.filter(({ about }) => about.trainable))',
        'endsOf(this.#calls)',
      ],
      [
        'a failed call has the place of what it asked',
        'settled.error === null ? (places.get(end) ?? null) : null',
        'places.get(end) ?? null',
      ],
      [
        'an answer that a rewritten history moved has no call',
        'path.map((node, index) => [node.copyOf ?? node, index])',
        'path.map((node, index) => [node, index])',
      ],
      [
        'other instructions are a rewritten history',
        'const instructionsChanged = !extendsPrevious && hasOtherInstructions(path)',
        'const instructionsChanged = false',
      ],
    ],
  ),
  ...mutationsOf(
    'packages/core/src/workflow/rollout-limits.ts',
    [`${policy}/limits-and-withdrawal.test.ts`],
    [
      [
        'costs that nobody knows are none',
        "else if (price === undefined) this.#fail('costUsd', 'cost; set usdPerMillionTokens')",
        'else if (price === undefined) return',
      ],
      [
        'usage that is missing is none',
        "      this.#fail(totalTokens === undefined ? 'costUsd' : 'totalTokens', 'usage')\n",
        '',
      ],
      [
        'reported costs are ignored',
        'if (isCount(cost)) this.#used.costUsd += cost\n    else if',
        'void cost\n    if',
      ],
      [
        'tokens that are not counted are none',
        "else if (totalTokens !== undefined) this.#fail('totalTokens', countsOfTokens)",
        '',
      ],
    ],
  ),
  ...mutationsOf(
    'packages/controller/src/policy/record-policy.ts',
    ['packages/controller/test/record-policy.test.ts'],
    [
      [
        'a server that ends in the middle of an answer has failed the rollout',
        'if (!request.signal.aborted) listener.onLost?.(reason)',
        'void reason',
      ],
      [
        'a rollout whose time is up was lost to its policy',
        'if (!request.signal.aborted) listener.onLost?.(reason)',
        'listener.onLost?.(reason)',
      ],
    ],
  ),
]
