import { mutationsNamed, type Mutation } from './mutation.ts'

const train = 'packages/train/test'

const mutationsOf = mutationsNamed('training')

/** What a step takes from the steps before it, and what of a training must not change. */
export const trainingLoopMutations: readonly Mutation[] = [
  ...mutationsOf(
    'packages/train/src/loop/choose-rows.ts',
    [`${train}/row-order.test.ts`],
    [
      ['all epochs have the same order of rows', '`epoch/${seed}/${next}`', '`epoch/${seed}`'],
      ['orders of rows have no seed', '`epoch/${seed}/${next}`', '`epoch/${next}`'],
      [
        'rows are in the order of the dataset',
        'shuffled(rows, randomNumbers(',
        'rows ?? (randomNumbers(',
      ],
    ],
  ),
  ...mutationsOf(
    'packages/train/src/loop/train.ts',
    [`${train}/row-order.test.ts`],
    [
      [
        'the seed of a training does not reach its order of rows',
        'const { rows, curriculum = false, seed = 0 } = this.#options',
        'const { rows, curriculum = false } = this.#options\n    const seed = 0',
      ],
      [
        'each step has the rows of the first',
        '      seed,\n      step,\n      ...(settled',
        '      seed,\n      step: 1,\n      ...(settled',
      ],
    ],
  ),
  ...mutationsOf(
    'packages/train/src/loop/choose-rows.ts',
    [`${train}/curriculum.test.ts`],
    [
      ['the curriculum is reversed', 'const settledWeight = 0.25', 'const settledWeight = 4'],
      ['the curriculum changes nothing', 'const settledWeight = 0.25', 'const settledWeight = 1'],
      [
        'settled rows are never drawn again',
        'const settledWeight = 0.25',
        'const settledWeight = 1e-9',
      ],
      [
        'settled rows are drawn half as often',
        'const settledWeight = 0.25',
        'const settledWeight = 0.5',
      ],
      ['the rows that are drawn least are taken', 'b.key - a.key', 'a.key - b.key'],
      [
        'steps of a curriculum draw by the same numbers',
        '`rows/${seed}/${step}`',
        '`rows/${seed}`',
      ],
    ],
  ),
  ...mutationsOf(
    'packages/train/src/loop/choose-rows.ts',
    [`${train}/curriculum.test.ts`],
    [
      ['a settled row stays settled', 'for (const row of tried) settled.delete(row)', ''],
      [
        'positions in the dataset are taken for places in the list of rows',
        'settled.has(row) ? [at]',
        'settled.has(at) ? [at]',
      ],
      [
        'only the step before decides which rows are settled',
        'for (const { rows: tried, settledRows: agreed } of steps) {',
        'for (const { rows: tried, settledRows: agreed } of steps.slice(-1)) {',
      ],
    ],
  ),
  ...mutationsOf(
    'packages/train/src/loop/train.ts',
    [`${train}/curriculum.test.ts`],
    [
      [
        'the curriculum is always on',
        'curriculum ? settledBefore(before, rows)',
        'true ? settledBefore(before, rows)',
      ],
      [
        'the curriculum is ignored',
        'curriculum ? settledBefore(before, rows)',
        'false ? settledBefore(before, rows)',
      ],
      [
        'rollouts beside an update do not know the step before them',
        'this.#begin(ended.step + 1, steps)',
        'this.#begin(ended.step + 1)',
      ],
    ],
  ),
  ...mutationsOf(
    'packages/eval/src/analysis/training/step-figures.ts',
    [`${train}/curriculum.test.ts`],
    [
      [
        'rows that gave a signal are settled',
        "table.groups.filter(({ kind }) => kind !== 'signal')",
        "table.groups.filter(({ kind }) => kind === 'signal')",
      ],
    ],
  ),
  ...mutationsOf(
    'packages/train/src/loop/same-training.ts',
    [`${train}/same-training.test.ts`],
    [
      ['a training continues with another model', '{ model: name }', "{ model: '' }"],
      ['other files of the model are accepted', ': { model_files: modelFiles }', ': {}'],
      ['a training continues with other code', 'before.inputs?.code, inputs?.code', 'null, null'],
      [
        'code is compared by its entrypoint',
        'before.inputs?.code, inputs?.code',
        'before.inputs?.code.entrypoint, inputs?.code.entrypoint',
      ],
      [
        'a training continues with another config of its workflow',
        'before.inputs?.workflow, inputs?.workflow',
        'null, null',
      ],
      ['a training continues with another env', 'before.inputs?.env, inputs?.env', 'null, null'],
      [
        'a training continues with other secrets',
        'before.inputs?.secrets, inputs?.secrets',
        'null, null',
      ],
      [
        'a training continues with adapters of another rank',
        '(trained === undefined ? {} : { trained })',
        '{}',
      ],
      [
        'a training continues with other rows',
        '[names.rows, before.rows, rows]',
        '[names.rows, 0, 0]',
      ],
      [
        'a training continues with other held-out rows',
        '[names.held_out_rows, before.held_out_rows, heldOut]',
        '[names.held_out_rows, 0, 0]',
      ],
      [
        'held-out rows are those that are trained',
        'digestOf(options.heldOut ?? [])',
        'digestOf(options.rows)',
      ],
      ['rows are their labels', 'JSON.stringify(row)', 'JSON.stringify(row.label)'],
      ['rows are their prompts', 'JSON.stringify(row)', 'JSON.stringify(row.initialMessages)'],
      [
        'rows are their fields on the first level',
        'JSON.stringify(row)',
        'JSON.stringify(row, Object.keys(row))',
      ],
      [
        'rows may change their order',
        'for (const row of rows) digest',
        'for (const row of rows.toSorted((a, b) => a.sourceRowIndex - b.sourceRowIndex)) digest',
      ],
      [
        'a training continues with other sizes of steps',
        'rows_per_step: options.rowsPerStep ?? null',
        'rows_per_step: null',
      ],
      ['a training continues with another seed', 'seed: options.seed ?? 0', 'seed: 0'],
      [
        'a training continues with another curriculum',
        'curriculum: options.curriculum ?? false',
        'curriculum: false',
      ],
      [
        'nothing that changed is refused',
        'if (changed.length === 0) return',
        'if (changed.length >= 0) return',
      ],
      [
        'a training of an earlier version is another training',
        'was === undefined || isSame(was, is)',
        'isSame(was, is)',
      ],
    ],
  ),
  ...mutationsOf(
    'packages/train/src/loop/stored-sequences.ts',
    [`${train}/stored-sequences.test.ts`],
    [
      [
        'a result counts before its tokens are on the disk',
        "if (outcome.status === 'success') await this.#store(item.rolloutId, source, outcome)\n            await options.onEnd?.(outcome)",
        "await options.onEnd?.(outcome)\n            if (outcome.status === 'success') await this.#store(item.rolloutId, source, outcome)",
      ],
      [
        'nobody waits for tokens to be on the disk',
        'await this.#store(item.rolloutId, source, outcome)',
        'void this.#store(item.rolloutId, source, outcome).catch(() => {})',
      ],
      [
        'tokens that are still in memory count as stored',
        'return this.#file.append(JSON.stringify(line)).durable',
        'return Promise.race([this.#file.append(JSON.stringify(line)).durable, undefined])',
      ],
      [
        'tokens that cannot be stored are lost without a word',
        'return this.#file.append(JSON.stringify(line)).durable',
        'return this.#file.append(JSON.stringify(line)).durable.catch(() => {})',
      ],
    ],
  ),
  ...mutationsOf(
    'packages/train/src/loop/train-options.ts',
    [`${train}/step-settings.test.ts`],
    [
      ['drift has no limit', 'maxDrift: 0.3,', 'maxDrift: Infinity,'],
      ['drift may be ten times as large', 'maxDrift: 0.3,', 'maxDrift: 3,'],
      ['gspo has the bounds of tokens', 'gspo: { clipLow: 3e-4, clipHigh: 4e-4 }', 'gspo: {}'],
      [
        'the bounds of gspo are exchanged',
        'gspo: { clipLow: 3e-4, clipHigh: 4e-4 }',
        'gspo: { clipLow: 4e-4, clipHigh: 3e-4 }',
      ],
      [
        'all losses have the bounds of gspo',
        "defaultBounds[update.loss ?? 'dapo']",
        "defaultBounds['gspo']",
      ],
    ],
  ),
  ...mutationsOf(
    'packages/train/src/loop/train.ts',
    [`${train}/step-settings.test.ts`],
    [
      [
        'an update that is made again tolerates the staleness of now',
        'const { maxStaleness, normalizeAdvantages: normalize, maskCutAnswers } = settings',
        'const { normalizeAdvantages: normalize, maskCutAnswers } = settings\n    const { maxStaleness = 0 } = this.#options',
      ],
      [
        'an update that is made again masks answers as it is done now',
        'const { maxStaleness, normalizeAdvantages: normalize, maskCutAnswers } = settings',
        'const { maxStaleness, normalizeAdvantages: normalize } = settings\n    const { maskCutAnswers = false } = this.#options',
      ],
      [
        'an update that is made again has the advantages of now',
        'const { maxStaleness, normalizeAdvantages: normalize, maskCutAnswers } = settings',
        'const { maxStaleness, maskCutAnswers } = settings\n    const { normalizeAdvantages: normalize = true } = this.#options',
      ],
      [
        'an update that is made again has the settings of now',
        'await this.#update(await this.#batchOf({ ...step, settings }), settings)',
        'await this.#update(await this.#batchOf({ ...step, settings }), this.#settings(step.step))',
      ],
      [
        'steps do not store their staleness',
        '      normalizeAdvantages,\n      maxStaleness,',
        '      normalizeAdvantages,\n      maxStaleness: 0,',
      ],
      [
        'a step does not know the steps before it',
        'alarmsOf(measured, this.#journal.steps, evaluated?.rollouts)',
        'alarmsOf(measured, [])',
      ],
      [
        'a step knows the step before it alone',
        'alarmsOf(measured, this.#journal.steps, evaluated?.rollouts)',
        'alarmsOf(measured, this.#journal.steps.slice(-1))',
      ],
    ],
  ),
  ...mutationsOf(
    'packages/train/src/batch/training-batch.ts',
    [`${train}/policy-versions.test.ts`],
    [
      ['a version is the first number of a name', '/(?:^|-)(\\d+)$/', '/(\\d+)/'],
      ['a version is the first number behind a hyphen', '/(?:^|-)(\\d+)$/', '/(?:^|-)(\\d+)/'],
      ['a version has one digit', '/(?:^|-)(\\d+)$/', '/(?:^|-)(\\d)$/'],
      ['a number that belongs to a word is a version', '/(?:^|-)(\\d+)$/', '/(\\d+)$/'],
      [
        'a name without a number is stale',
        'digits === undefined ? Infinity',
        'digits === undefined ? -Infinity',
      ],
      [
        'a name without a number is version 0',
        'digits === undefined ? Infinity',
        'digits === undefined ? 0',
      ],
      [
        'nothing is stale',
        'if (toTrain.policyVersion < version - maxStaleness) stale += 1\n      else if',
        'if',
      ],
      [
        'what is stale is trained all the same',
        'stale += 1\n      else if',
        'stale += 1\n      if',
      ],
      [
        'the journal says that nothing is stale',
        'constrained,\n    stale,\n',
        'constrained,\n    stale: 0,\n',
      ],
      [
        'steps name a version of few sequences',
        'other.length - one.length',
        'one.length - other.length',
      ],
      ['steps name the newer of two versions', '|| a - b)', '|| b - a)'],
    ],
  ),
  ...mutationsOf(
    'packages/train/src/local/local-learner.ts',
    [`${train}/local/update-bodies.test.ts`],
    [
      [
        'every sequence is of the version of now for the learner',
        'version: answeringVersion(sequence, version)',
        'version',
      ],
      [
        'no sequence has a version for the learner',
        'version: answeringVersion(sequence, version)',
        'version: null',
      ],
      [
        'a sequence of several versions is of the oldest one for the learner',
        'policyVersion !== newestVersion',
        'false',
      ],
      [
        'staleness is that of the start',
        'toUpdateBody(batch, settings, version)',
        'toUpdateBody(batch, settings, 0)',
      ],
      ['the learner is told no limit of drift', 'max_drift: settings.maxDrift', 'max_drift: 1e9'],
      ['drift is an error like any other', "drift: 'training_drift'", "drift: 'learner_error'"],
      [
        'the cap of importance weights is left out on the way',
        'importance_cap: settings.importanceCap',
        'importance_cap: 2',
      ],
      [
        'the norm of gradients is left out on the way',
        'max_grad_norm: settings.maxGradNorm',
        'max_grad_norm: 1',
      ],
      [
        'weight decay is left out on the way',
        'weight_decay: settings.weightDecay',
        'weight_decay: 0',
      ],
      [
        'the largest drift is shown as the mean',
        'driftMean: updated.drift_mean',
        'driftMean: updated.drift_max',
      ],
      ['all surrogates are ppo', 'surrogate: surrogateOf(settings.loss)', "surrogate: 'ppo'"],
      ['all sequences have the scale of the first', 'scale: scales[at]', 'scale: scales[0]'],
    ],
  ),
  ...mutationsOf(
    'packages/train/src/tinker/service/tinker-data.ts',
    [`${train}/tinker/drift.test.ts`],
    [
      ['the drift of services has no limit', 'if (mean <= most) return', 'if (mean >= 0) return'],
      [
        'the drift of services may be twice as large',
        'if (mean <= most) return',
        'if (mean <= 2 * most) return',
      ],
      [
        'only what is more likely now is drift',
        'Math.abs(now - (logprobs[place] ?? 0))',
        'Math.max(0, now - (logprobs[place] ?? 0))',
      ],
      [
        'drift is that of prompts, too',
        'if (isSampled === 0 || now === undefined) continue',
        'if (now === undefined) continue',
      ],
      [
        'the mean drift is that of sequences',
        'mean: total / Math.max(1, count)',
        'mean: total / Math.max(1, sequences.length)',
      ],
    ],
  ),
  ...mutationsOf(
    'packages/train/src/tinker/service/tinker-model.ts',
    [`${train}/tinker/drift.test.ts`],
    [
      [
        'services are told no limit of drift',
        'assertSmallDrift(first, settings.maxDrift)',
        'assertSmallDrift(first, Infinity)',
      ],
    ],
  ),
  ...mutationsOf(
    'packages/eval/src/training/recorded-step.ts',
    ['packages/eval/test/training/worker-steps.test.ts'],
    [
      [
        'a row of a worker is its label',
        'JSON.stringify([row.initialMessages, row.label])',
        'JSON.stringify([row.label])',
      ],
      [
        'a row of a worker is its prompt',
        'JSON.stringify([row.initialMessages, row.label])',
        'JSON.stringify([row.initialMessages])',
      ],
      [
        'a row of a worker is all that is sent',
        'JSON.stringify([row.initialMessages, row.label])',
        'JSON.stringify([row.initialMessages, row.label, row.metadata])',
      ],
      [
        'all attempts of a worker are the first',
        'this.#attempts.set(row, attempt + 1)',
        'this.#attempts.set(row, 0)',
      ],
      [
        'a step of a worker does not know the steps before it',
        'alarmsOf(measured, earlier)',
        'alarmsOf(measured, [])',
      ],
      [
        'a step of a worker was sampled by its own version',
        'sampledBy: this.step - 1',
        'sampledBy: this.step',
      ],
      [
        'rows of a worker that settled give a signal',
        'groupsWithSignal: rows.length - settledRows.length',
        'groupsWithSignal: settledRows.length',
      ],
    ],
  ),
  ...mutationsOf(
    'packages/eval/src/training/training-record.ts',
    ['packages/eval/test/training/worker-steps.test.ts'],
    [
      ['a worker that continues numbers its rows anew', 'rows.set(key, position)', 'void position'],
      [
        'a step of a worker knows all steps',
        'filter((record) => record.step < step.step)',
        'filter((record) => record.step !== step.step + 1e6).slice(0, 2)',
      ],
      ['versions of a worker are one', '?? unknownVersion }', '&& unknownVersion }'],
    ],
  ),
  ...mutationsOf(
    'packages/train/src/loop/train.ts',
    [`${train}/journal.test.ts`],
    [
      [
        'a start does not count the warm start',
        '      steps: this.#totalSteps(),',
        '      steps: this.#options.steps,',
      ],
      [
        'a start says that nothing was done before',
        '      step: this.#journal.steps.length,\n      steps',
        '      step: 0,\n      steps',
      ],
      ['callers do not hear of evaluations', '    onEvaluation?.(record)\n', ''],
      ['callers do not hear of steps', '    onStep?.(record)\n', ''],
      [
        'a reward has to be exceeded to end a training',
        '>= stopWhen.reward)',
        '> stopWhen.reward)',
      ],
      [
        'a training waits one step longer for a better reward',
        'last - best >= stopWhen.patience',
        'last - best > stopWhen.patience',
      ],
      [
        'a reward that is as good again is better',
        'rewards.indexOf(Math.max',
        'rewards.lastIndexOf(Math.max',
      ],
    ],
  ),
  ...mutationsOf(
    'packages/train/src/loop/train.ts',
    [`${train}/beside-updates.test.ts`],
    [
      [
        'steps begin before an evaluation that comes first',
        ' || this.#isEvaluationDue(steps.length)) return',
        ') return',
      ],
      ['rollouts go on when a training has failed', '      await this.#ahead?.stop()\n', ''],
      [
        'steps begin beside the last update',
        'if (this.#reasonToEnd(steps, 0) === undefined) {',
        'if (true as boolean) {',
      ],
      ['steps always begin beside updates', '(this.#options.maxStaleness ?? 0) === 0 || ', ''],
      [
        'a step that began beside an update begins again',
        'const started = this.#ahead ?? this.#begin(number)',
        'const started = this.#begin(number)',
      ],
    ],
  ),
  ...mutationsOf(
    'packages/train/src/loop/train.ts',
    [`${train}/step-settings.test.ts`],
    [
      [
        'updates without anything to learn are made again',
        '      if (step.update === null) continue\n',
        '',
      ],
    ],
  ),
  ...mutationsOf(
    'packages/train/src/loop/stored-sequences.ts',
    [`${train}/lone-conversations.test.ts`],
    [
      [
        'a lone conversation with another name is not trained',
        'sampleCount === 1 && stored.length === 1 ? stored[0]',
        'sampleCount < 0 ? stored[0]',
      ],
      [
        'a lone conversation is that of all samples',
        'sampleCount === 1 && stored.length === 1 ? stored[0]',
        'stored.length === 1 ? stored[0]',
      ],
      [
        'step rewards of a lone conversation with another name are lost',
        'said.length === 1 ? Object.values(stepRewards)[0]',
        'said.length === 0 ? Object.values(stepRewards)[0]',
      ],
    ],
  ),
  ...mutationsOf(
    'packages/train/src/batch/training-batch.ts',
    [`${train}/warm-start.test.ts`],
    [
      [
        'all rows of a warm start have a signal',
        'groupsWithSignal: withGood.size',
        'groupsWithSignal: rows.size',
      ],
      [
        'rows of a warm start are those that reached the threshold',
        'groups: rows.size',
        'groups: withGood.size',
      ],
    ],
  ),
  ...mutationsOf(
    'packages/train/src/batch/training-batch.ts',
    [`${train}/journal.test.ts`],
    [
      [
        'calls that are no training data are not counted',
        'untrainable += sample.untrainable',
        'untrainable += 0',
      ],
      [
        'answers without ids are not counted in a batch',
        'withoutIds += sample.withoutIds',
        'withoutIds += 0',
      ],
      [
        'splits are not counted',
        'splits += Math.max(0, sample.sequences.length - 1)',
        'splits += 0',
      ],
      [
        'tokens of prompts count',
        'tokens += sampledIn(toTrain.mask)',
        'tokens += toTrain.ids.length',
      ],
      [
        'all groups have a signal',
        'groupsWithSignal: signals.size',
        'groupsWithSignal: groups.size',
      ],
    ],
  ),
  ...mutationsOf(
    'packages/train/src/loop/train-options.ts',
    [`${train}/journal.test.ts`],
    [
      [
        'the threshold of passes is ignored',
        'passThreshold = 1 } = options',
        '} = options\n  const passThreshold = 1',
      ],
    ],
  ),
  ...mutationsOf(
    'packages/train/src/loop/stored-sequences.ts',
    [`${train}/stored-sequences.test.ts`],
    [
      [
        'a line that a crash cut off swallows the next one',
        "    if (this.#file.end > 0) void this.#file.append('').durable.catch(() => {})\n",
        '',
      ],
      [
        'a line that a crash cut off is the end of a file',
        'if (line !== undefined) found',
        'if (line === undefined) break\n    found',
      ],
    ],
  ),
]
