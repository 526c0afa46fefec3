import { mutationsNamed, type Mutation } from './mutation.ts'

const train = 'packages/train/test'
const known = [`${train}/known-batch.test.ts`]
const resumed = [`${train}/resume.test.ts`]
const measuredVersions = ['packages/eval/test/analysis/best-version.test.ts']
const updates = [`${train}/reference/updates.test.ts`]

const mutationsOf = mutationsNamed('training')

/** The training loop and its learners. */
export const trainingMutations: readonly Mutation[] = [
  ...mutationsOf(
    'packages/train/learner/sampling.py',
    [`${train}/local-learner.test.ts`],
    [
      ['answers of a seed are not confirmed', 'and not self._confirm(request)', 'and False'],
      [
        'a token that is drawn again has another number',
        'if len(self.draws) == len(self.ids):',
        'self.draws[len(self.ids) :] = []\n        if True:',
      ],
      [
        'logprobs of confirmed answers are those of their batch',
        'request.logprobs[place] = float(logprobs[row, token])',
        'pass',
      ],
    ],
  ),
  ...mutationsOf('packages/train/learner/training.py', updates, [
    [
      'the drift of stale answers is measured against the weights of now',
      's.start if s.version == self.version else s.answered',
      's.start',
    ],
    [
      'a loaded state has the weights before those of another one',
      '        self.earlier = None\n        self.optimizer',
      '        self.optimizer',
    ],
    [
      'an update that fails behind its first step keeps that step',
      '            if steps:\n                self.restore(before)',
      '            pass',
    ],
  ]),
  ...mutationsOf(
    'packages/train/learner/learner.py',
    [`${train}/learner/requests.test.ts`],
    [
      [
        'the learner reads bodies before it checks the key',
        '        wanted = f"Bearer {self.server.key}".encode()',
        '        self._body(read_length(self.headers))\n        wanted = f"Bearer {self.server.key}".encode()',
      ],
      [
        'the learner waits for bodies without an end',
        'self.patience + length / 2**20',
        '1e6 + length / 2**20',
      ],
    ],
  ),
  ...mutationsOf(
    'packages/train/src/loop/train.ts',
    [`${train}/without-signal.test.ts`],
    [
      [
        'a training without a signal continues',
        'const { withoutSignal = 3 } = stopWhen',
        'const withoutSignal = 0',
      ],
      [
        'a training whose signal ended continues',
        'return steps.length - Math.max(updated, this.#before)',
        'return updated === 0 ? steps.length - this.#before : 0',
      ],
      [
        'unchanged weights are evaluated again',
        'if (this.#hasUpdate()) await this.#evaluate()',
        'await this.#evaluate()',
      ],
    ],
  ),
  ...mutationsOf(
    'packages/protocol/src/files/failed-write.ts',
    ['packages/train/test/full-disk.test.ts'],
    [
      [
        'the error of a full disk is not translated',
        "if (!['ENOSPC', 'EDQUOT', 'EFBIG'].includes(code)) return error",
        'return error',
      ],
    ],
  ),
  ...mutationsOf('packages/train/src/batch/advantages.ts', known, [
    [
      'deviations are those over all groups',
      'const scale = scales.get(group)',
      `const scale = { outcome: scaleOf(samples.map((one) => one.reward)), step: scales.get(group)!.step }`,
    ],
    [
      'deviations are those of a sample',
      'Math.sqrt(average(values.map((value) => (value - mean) ** 2)))',
      'Math.sqrt(average(values.map((value) => (value - mean) ** 2)) * values.length / (values.length - 1))',
    ],
    [
      'advantages are never normalized',
      'return normalize ? difference',
      'return !normalize ? difference',
    ],
    [
      'advantages are small in groups of close rewards',
      'const epsilon = 1e-4',
      'const epsilon = 1e-2',
    ],
    ['step rewards are not added up', 'sum += relative(step', 'sum = relative(step'],
    ['step rewards are added from the start', '.toReversed()) {', ') {'],
    [
      'step rewards are compared with outcomes',
      'relative(step, scale?.step)',
      'relative(step, scale?.outcome)',
    ],
    ['step rewards are left out', 'if (!stepRewards?.some(isNumber)) {', 'if (true) {'],
    [
      'a step without a reward counts as 0',
      'stepRewards = [] }) => stepRewards.filter(isNumber)',
      'stepRewards = [] }) => stepRewards.map((one) => one ?? 0)',
    ],
    [
      'a reward is its own advantage',
      'const difference = value - scale.mean',
      'const difference = value',
    ],
  ]),
  ...mutationsOf('packages/train/src/batch/training-batch.ts', known, [
    ['all samples of a row are one group', '`${row}/${sampleId}`', '`${row}`'],
    ['all rows are one group', '`${row}/${sampleId}`', '`${sampleId}`'],
    [
      'the newest token decides about the usual version',
      'return Math.min(...answers',
      'return Math.max(...answers',
    ],
    [
      'the newest token decides about staleness',
      'policyVersion: Math.min(...versions)',
      'policyVersion: Math.max(...versions)',
    ],
    ['staleness is not looked at', 'toTrain.policyVersion < version - maxStaleness', 'false'],
    ['one version old is not stale', '< version - maxStaleness', '< version - maxStaleness - 1'],
    ['prompts are trained, too', 'mask.fill(1, start, end)', 'mask.fill(1, 0, end)'],
    [
      'the advantage is that of the token before',
      'advantages.fill(weigh(call), start, end)',
      'advantages.fill(weigh(call), start - 1, end - 1)',
    ],
    [
      'all answers have the advantage of the first',
      'weigh(call), start',
      'weigh(answers[0]!.call), start',
    ],
    [
      'only the last sequence of a sample is trained',
      'for (const sequence of sample.sequences) {',
      'for (const sequence of sample.sequences.slice(-1)) {',
    ],
    [
      'answers without an advantage are trained',
      'advantages.some((advantage) => advantage !== 0)',
      'advantages.some(() => true)',
    ],
    [
      'a warm start imitates only what is better than its threshold',
      'reward >= threshold',
      'reward > threshold',
    ],
    ['a warm start imitates everything', 'reward >= threshold', 'reward >= threshold || true'],
  ]),
  ...mutationsOf('packages/train/src/loop/stored-sequences.ts', known, [
    [
      'failed attempts count as 0',
      "if (event.status !== 'success') continue",
      "if (event.status !== 'success') {\n      for (const sampleId of ['asker', 'solver']) samples.push({ rolloutId: event.rollout_id, sampleId, row: event.source_row_index, reward: 0, sequences: [], withoutIds: 0, untrainable: 0 })\n      continue\n    }",
    ],
    ['removed samples count as 0', 'if (reward === null) continue', ''],
    [
      'all samples of a rollout have the mean reward',
      'reward,\n        stepRewards',
      'reward: event.reward ?? 0,\n        stepRewards',
    ],
    [
      'the sequences of another sample are trained',
      'one.sampleId === sampleId',
      'one.sampleId !== sampleId',
    ],
  ]),
  ...mutationsOf('packages/train/src/loop/stored-sequences.ts', known, [
    [
      'step rewards are shifted by failed calls',
      'error === null ? (own.next().value ?? null) : null',
      'own.next().value ?? null',
    ],
  ]),
  ...mutationsOf('packages/protocol/src/trajectory/training-sequences.ts', known, [
    ['failed calls are trained', 'if (call.error !== null) continue', ''],
    [
      'all answers count as sampled at temperature 1',
      "typeof temperature === 'number' ? temperature : null",
      '1',
    ],
    [
      'each call is a sequence of its own',
      'let sequence = longestPrefix(open, prompt, temperature)',
      'let sequence: OpenSequence | undefined',
    ],
    [
      'logprobs are those of the token before',
      'while (sequence.logprobs.length < start)',
      'while (sequence.logprobs.length < start - 1)',
    ],
  ]),
  ...mutationsOf('packages/train/src/loop/train.ts', known, [
    [
      'held-out rows are trained',
      'const { rows, curriculum = false',
      'const { heldOut: rows = [], curriculum = false',
    ],
    ['trained rows are evaluated', 'rows: heldOut,', 'rows: this.#options.rows,'],
    [
      'evaluations name the version before',
      'step,\n      version: this.#learner.version,\n      rollouts',
      'step,\n      version: this.#learner.version - 1,\n      rollouts',
    ],
    [
      'runs name the version of the start',
      '`${this.#learner.name}@${this.#learner.version}`',
      '`${this.#learner.name}@0`',
    ],
    [
      'evaluations between steps are left out',
      'evaluateEvery > 0 && done % evaluateEvery === 0',
      'false',
    ],
    [
      'the warm start is one step longer',
      'this.#warmSteps() < (warmStart?.steps ?? 0)',
      'this.#warmSteps() <= (warmStart?.steps ?? -1)',
    ],
    ['every update has the same order', 'seed + this.#learner.version', 'seed'],
    [
      'normalization is ignored',
      'normalizeAdvantages: normalize, maskCutAnswers } = settings',
      'maskCutAnswers } = settings, normalize = true',
    ],
    [
      'dr_grpo normalizes',
      "normalizeAdvantages = update.loss !== 'dr_grpo'",
      'normalizeAdvantages = true',
    ],
    ['the allowed staleness is ignored', '{ version, maxStaleness,', '{ version,'],
  ]),
  ...mutationsOf('packages/train/src/local/local-learner.ts', updates, [
    ['passes are ignored', 'epochs: settings.epochs', 'epochs: 1'],
    ['minibatches are ignored', 'minibatches: settings.minibatches', 'minibatches: 1'],
    [
      'the bounds are exchanged on the way',
      'clip_low: settings.clipLow',
      'clip_low: settings.clipHigh',
    ],
    ['the penalty is left out on the way', 'kl: settings.kl', 'kl: 0'],
    ['temperatures are left out on the way', '  temperature,\n        scale', '  scale'],
    ['the learning rate is left out on the way', '    learning_rate: settings.learningRate,\n', ''],
    ['the seed is left out on the way', 'seed: settings.seed', 'seed: 0'],
  ]),
  ...mutationsOf(
    'packages/train/src/local/local-learner.ts',
    [`${train}/local-learner.test.ts`],
    [
      [
        'all conversations have one id',
        'JSON.stringify([call.rolloutId, call.sampleId])',
        "'conversation'",
      ],
    ],
  ),
  ...mutationsOf('packages/train/src/batch/loss-scales.ts', updates, [
    [
      'tokens of long sequences count less',
      "if (loss === 'policy_gradient') {",
      'if (true) {\n      return 1 / (counts.length * count)',
    ],
    ['grpo counts all tokens equally', "settings.loss === 'grpo' || ", ''],
    ['gspo counts all tokens equally', " || settings.loss === 'gspo'", ''],
    ['dr_grpo counts all tokens equally', "settings.loss === 'dr_grpo'", 'false'],
    ['the divisor is that of another batch', 'return 1 / tokens', 'return 1 / (tokens + 1)'],
    ['cispo is ppo', "loss === 'cispo' || ", ''],
  ]),
  ...mutationsOf('packages/train/learner/training.py', updates, [
    ['nothing is clipped', 'torch.min(free, clipped)', 'free'],
    ['the larger of two values is taken', 'torch.min(free, clipped)', 'torch.max(free, clipped)'],
    [
      'the bounds are exchanged',
      'ratio.clamp(1 - settings.clip_low, most)',
      'ratio.clamp(1 - settings.clip_high, 1 + settings.clip_low)',
    ],
    [
      'cispo limits how far the weight is above 1',
      'settings.clip_high if settings.surrogate == "cispo" else ',
      '',
    ],
    ['importance weights are 1', 'losses = -weight * torch.min', 'losses = -torch.min'],
    [
      'importance weights are upside down',
      '(start - recorded).exp().clamp(',
      '(recorded - start).exp().clamp(',
    ],
    ['importance weights have no cap', '.clamp(max=settings.importance_cap)', ''],
    [
      'ratios are those to what was recorded',
      'change = logprobs - start',
      'change = logprobs - recorded',
    ],
    [
      'gradients are never clipped',
      'self.policy.trained.values(), settings.max_grad_norm)',
      'self.policy.trained.values(), 1e9)',
    ],
    [
      'the norm of gradients is always 1',
      'self.policy.trained.values(), settings.max_grad_norm)',
      'self.policy.trained.values(), 1.0)',
    ],
    [
      'the penalty has no gradient',
      'penalty = gap.exp() - gap - 1',
      'penalty = (gap.exp() - gap - 1).detach()',
    ],
    [
      'the penalty has the wrong direction',
      '[s.reference for s in batch]) - logprobs',
      '[s.reference for s in batch]).neg() + logprobs',
    ],
    [
      'the penalty is to the version before',
      'self.measure(sequences, "reference")',
      'self.measure(sequences, "reference")\n            for s in sequences: s.reference = s.start if s.start is not None else s.reference',
    ],
    [
      'weights decay',
      '= settings.learning_rate, settings.weight_decay',
      '= settings.learning_rate, 0.01',
    ],
    [
      'weights never decay',
      '= settings.learning_rate, settings.weight_decay',
      '= settings.learning_rate, 0.0',
    ],
    ['minibatches are small updates', '(value * len(parts)).backward()', 'value.backward()'],
    ['only one pass is made', 'for _ in range(settings.epochs):', 'for _ in range(1):'],
    ['the order is not shuffled', 'shuffled.shuffle(order)', 'pass'],
    [
      'minibatches are neighbours',
      'order[at :: settings.minibatches]',
      'order[at * len(order) // settings.minibatches : (at + 1) * len(order) // settings.minibatches]',
    ],
    ['only the first minibatch is trained', 'for part in parts:', 'for part in parts[:1]:'],
    [
      'advantages are those of the token before',
      'torch.tensor([advantages[at] for at in self.at])',
      'torch.tensor([advantages[at - 1] for at in self.at])',
    ],
    ['the context is shifted', '[rows, at - 1]', '[rows, at]'],
    [
      'temperatures are ignored',
      'self.policy.head(hidden).float() / temperature[:, None]',
      'self.policy.head(hidden).float()',
    ],
    [
      'the learning rate is that of the start',
      '["weight_decay"] = settings.learning_rate,',
      '["weight_decay"] = self.learning_rate,',
    ],
    [
      'the optimizer forgets its moments',
      'shuffled, order, steps =',
      'self.optimizer.state.clear()\n        shuffled, order, steps =',
    ],
    ['another optimizer is used', 'weight_decay=0.0)', 'weight_decay=0.0, betas=(0.9, 0.99))'],
    [
      'gradients add up over steps',
      'self.optimizer.step()\n                    self.optimizer.zero_grad(set_to_none=True)',
      'self.optimizer.step()',
    ],
    [
      'clipping counts what stayed within bounds',
      '(clipped < free).sum()',
      '(clipped <= free).sum()',
    ],
    [
      'the loss of imitation has the wrong sign',
      'losses = -logprobs * advantages',
      'losses = logprobs * advantages',
    ],
    ['ratios of gspo are those of tokens', 'if settings.surrogate == "gspo":', 'if False:'],
    [
      'cispo does not keep the gradient of clipped tokens',
      '-weight * clipped.detach() * logprobs',
      '-weight * clipped',
    ],
    [
      'sequences are scaled alike',
      'torch.full((len(s.at),), s.scale)',
      'torch.full((len(s.at),), batch[0].scale)',
    ],
  ]),
  ...mutationsOf('packages/train/src/batch/training-batch.ts', known, [
    ['cut answers are never masked', 'if (isCut && maskCutAnswers) continue', ''],
    ['cut answers are always masked', 'isCut && maskCutAnswers', 'isCut'],
  ]),
  ...mutationsOf('packages/train/src/loop/train.ts', resumed, [
    ['a failed update is saved', 'this.#isInJournal = false', 'this.#isInJournal = true'],
    [
      'lost updates are made again with the settings of now',
      'step.settings ?? this.#settings(step.step)',
      'this.#settings(step.step)',
    ],
    [
      'steps do not store their settings',
      '      settings,\n      endedAt: new Date().toISOString(),\n    } as const',
      '      endedAt: new Date().toISOString(),\n    } as const',
    ],
    [
      'the start is not saved',
      'if (this.#journal.checkpoints.length === 0) await this.#checkpoints.save()',
      '',
    ],
    [
      'evaluated versions are not saved',
      '    await this.#checkpoints.save()\n    const { figures }',
      '    const { figures }',
    ],
  ]),
  ...mutationsOf('packages/train/src/loop/checkpoints.ts', resumed, [
    [
      'a state of another version is loaded',
      'this.assertVersion(version, `The state in ${place}`)',
      '',
    ],
    [
      'a damaged state is loaded',
      'return sha256 === undefined || (await digestFolder(this.#path(folder))).sha256 === sha256',
      'return true',
    ],
    [
      'the best checkpoint is the worst',
      'reward > (rewards.get(best.version) ?? reward)',
      'reward < (rewards.get(best.version) ?? reward)',
    ],
    ['the best checkpoint is the last', 'reward > (rewards.get(best.version) ?? reward)', 'true'],
    [
      'the last of equal checkpoints is the best',
      'reward > (rewards.get(best.version) ?? reward)',
      'reward >= (rewards.get(best.version) ?? reward)',
    ],
    ['the best checkpoint is removed', 'checkpoint.folder === best?.folder', 'false'],
  ]),
  ...mutationsOf('packages/eval/src/analysis/training/best-version.ts', measuredVersions, [
    ['trained rows decide which checkpoint is the best', 'heldOut.length > 0', 'false'],
    [
      'a reward is that of the version after',
      '({ sampledBy: version, rollouts: { reward } })',
      '({ version, rollouts: { reward } })',
    ],
  ]),
  ...mutationsOf('packages/train/src/loop/train-options.ts', known, [
    [
      'settings of updates are ignored',
      "...defaultBounds[update.loss ?? 'dapo'], ...update",
      "...defaultBounds[update.loss ?? 'dapo']",
    ],
  ]),
  ...mutationsOf('packages/train/src/loop/train-options.ts', resumed, [
    [
      'the schedule of the learning rate is ignored',
      'settings.learningRate * rateShare(options, step, total)',
      'settings.learningRate',
    ],
    [
      'the warm-up is one step longer',
      'if (step <= warmupSteps) return step / warmupSteps',
      'if (step <= warmupSteps) return step / (warmupSteps + 1)',
    ],
    ['linear is cosine', "learningRateSchedule === 'linear'", "learningRateSchedule === 'cosine'"],
  ]),
  ...mutationsOf(
    'packages/train/src/tinker/service/tinker-model.ts',
    [`${train}/tinker/tinker-learner.test.ts`],
    [['Open-RL makes an update twice', "!trains || this.#options.dialect !== 'open-rl'", 'true']],
  ),
  ...mutationsOf(
    'packages/train/src/files/folder-digest.ts',
    [`${train}/local-learner.test.ts`],
    [
      [
        'contents of files are not in a digest',
        'await pipeline(createReadStream(file), digest, { end: false })',
        'await pipeline(createReadStream(file, { end: 0 }), digest, { end: false })',
      ],
      ['names of files are not in a digest', '`${name}\\0${found.size}\\0`', '`${found.size}\\0`'],
    ],
  ),
  ...mutationsOf(
    'packages/eval/src/analysis/training/training-settings.ts',
    ['packages/cli/test/train-tinker.test.ts'],
    [
      [
        'keys of the config do not reach the update',
        'if (value !== undefined) Object.assign(options[of], { [option]: value })',
        '',
      ],
      ['the plan names no setting', 'value === undefined || value === standard', 'true'],
      [
        'the plan names all settings',
        'value === undefined || value === standard',
        'value === undefined',
      ],
    ],
  ),
  ...mutationsOf(
    'packages/cli/src/train/run/training-plan.ts',
    ['packages/cli/test/train-tinker.test.ts'],
    [
      ['--lr is ignored', 'flags.lr ?? training', 'training'],
      ['settings of the training are ignored', '      ...settings.training,\n', ''],
    ],
  ),
  ...mutationsOf(
    'packages/train/src/tinker/service/tinker-model.ts',
    ['packages/cli/test/train-tinker.test.ts'],
    [
      [
        'minibatches are ignored by services',
        'inMinibatches(batch, settings.minibatches)',
        'inMinibatches(batch, 1)',
      ],
      ['passes are ignored by services', 'epoch < settings.epochs', 'epoch < 1'],
      [
        'the bounds of services are exchanged',
        'clip_low_threshold: low',
        'clip_low_threshold: high',
      ],
      ['services never let weights decay', 'weight_decay: settings.weightDecay', 'weight_decay: 0'],
      ['services always use ppo', 'isGradient ? surrogateOf(settings.loss)', "isGradient ? 'ppo'"],
    ],
  ),
  ...mutationsOf('packages/train/learner/training.py', updates, [
    ['an imitation has a drift of 0', 'drift = None', 'drift = torch.zeros(1)'],
  ]),
  ...mutationsOf(
    'packages/train/learner/folders.py',
    [`${train}/local-learner.test.ts`],
    [['a full disk is an error like any other', '(errno.ENOSPC, errno.EDQUOT, errno.EFBIG)', '()']],
  ),
  ...mutationsOf(
    'packages/train/src/rollouts/served-rollouts.ts',
    [`${train}/sampling.test.ts`],
    [
      [
        'longer answers than configured are allowed',
        'Math.min(most, ...own)',
        'Math.max(most, ...own)',
      ],
      ["an agent's own limit of tokens is replaced", 'Math.min(most, ...own)', 'most'],
      [
        'all steps have the same seeds',
        '`${this.#step}/${row.sourceRowIndex}/${runIndex}`',
        '`${row.sourceRowIndex}/${runIndex}`',
      ],
      [
        'all attempts have the same seeds',
        '`${this.#step}/${row.sourceRowIndex}/${runIndex}`',
        '`${this.#step}/${row.sourceRowIndex}`',
      ],
      ['all samples have the same seeds', '[place, sampleId, call]', '[place, call]'],
      ['all calls of a sample have the same seed', '[place, sampleId, call]', '[place, sampleId]'],
      ['answers have no seed', 'body: { ...body, seed }', 'body'],
    ],
  ),
  ...mutationsOf(
    'packages/train/src/loop/step-run.ts',
    [`${train}/sampling.test.ts`],
    [['all trainings have the same seeds', '`${options.seed}/${name}`', '`${name}`']],
  ),
  ...mutationsOf(
    'packages/train/src/tinker/service/usage-ledger.ts',
    [`${train}/tinker/tinker-learner.test.ts`],
    [
      ['what a process before used is forgotten', '#count(usedIn(line))', '#count({})'],
      ['what was used before the first state is not kept', 'this.#write(own)', ''],
      ['only saves keep what was used', 'if (this.#file !== undefined) this.#write(used)', ''],
    ],
  ),
  ...mutationsOf(
    'packages/eval/src/analysis/training/findings/training-alarms.ts',
    ['packages/eval/test/analysis/training-steps.test.ts'],
    [['a collapse raises no alarm', 'if (collapse !== undefined) {', 'if (false as boolean) {']],
  ),
  ...mutationsOf(
    'packages/eval/src/analysis/training/findings/policy-collapse.ts',
    [
      'packages/eval/test/analysis/training-steps.test.ts',
      'packages/eval/test/analysis/training-alarms.test.ts',
    ],
    [
      ['one bad step is a collapse', ' && (isFar || isLasting || hasNoSignal)', ''],
      ['only entropy that falls is far away', 'entropy > best.entropy * farEntropy || ', ''],
      ['only entropy that rises is far away', ' || entropy < best.entropy / farEntropy', ''],
      ['attempts that agree are no collapse', ' || hasNoSignal', ''],
      ['a lucky first step makes the next one a collapse', ' && reward < best.lowest', ''],
    ],
  ),
  ...mutationsOf(
    'packages/eval/src/analysis/training/step-figures.ts',
    ['packages/eval/test/analysis/training-steps.test.ts'],
    [
      [
        'intervals leave what rewards can be',
        '[Math.max(ci95[0], least), Math.min(ci95[1], most)]',
        'ci95',
      ],
      [
        'rewards are never above 1',
        'some((value) => (value ?? 0) > 1) ? Infinity : 1',
        'some((value) => (value ?? 0) > 1) ? 1 : 1',
      ],
    ],
  ),
  ...mutationsOf('packages/train/src/loop/step-run.ts', resumed, [
    [
      'a full disk is a policy that cannot be reached',
      'if (failure !== undefined) throw failure',
      '',
    ],
  ]),
  ...mutationsOf(
    'packages/cli/src/train/run/training-plan.ts',
    ['packages/cli/test/train-tinker.test.ts', 'packages/cli/test/chosen-rows.test.ts'],
    [['rows that are held out are trained, too', 'rows.filter((row) => !held.has(row))', 'rows']],
  ),
  ...mutationsOf(
    'packages/train/learner/answers.py',
    [`${train}/local-learner.test.ts`],
    [
      [
        'conversations of the learner have no owner',
        '[tools or None, settings, owner]',
        '[tools or None, settings]',
      ],
    ],
  ),
  ...mutationsOf(
    'packages/train/src/tinker/token-policy.ts',
    [`${train}/tinker/token-policy.test.ts`],
    [
      [
        'conversations of services have no owner',
        'return JSON.stringify([rolloutId, sampleId])',
        "return ''",
      ],
    ],
  ),
  ...mutationsOf(
    'packages/train/src/tinker/service/tinker-data.ts',
    [`${train}/tinker/tinker-learner.test.ts`],
    [
      [
        'targets of services are not shifted',
        'const data = values.slice(1)',
        'const data = values.slice(0, -1)',
      ],
      [
        'the drift of services is that of the token before',
        'outputs[at]?.[place - 1]',
        'outputs[at]?.[place]',
      ],
      ['the loss of services is not divided', 'advantage * own', 'advantage'],
      [
        'means of services are taken for sums',
        'const own = isMean ? scale * sampledIn(mask) : scale',
        'const own = scale',
      ],
    ],
  ),
  ...mutationsOf(
    'packages/train/src/tinker/tinker-learner.ts',
    [`${train}/tinker/tinker-learner.test.ts`],
    [['another tokenizer of a service is accepted', 'modelFiles: template.files,', '']],
  ),
]
