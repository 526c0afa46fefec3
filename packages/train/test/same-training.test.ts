import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'

import type { DatasetRow } from '@osmosis/eval'
import { alarmsOf, type RunInputs } from '@osmosis/eval/analysis'
import { train, type Learner, type TrainOptions, type TrainResult } from '@osmosis/train'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'

import { madeStep, temporaryFolder } from '../../../test/kit/index.ts'
import { KnownLearner } from './known-rollouts.ts'
import { quickRollouts } from './quick-rollouts.ts'

type Made = NonNullable<Parameters<typeof madeStep>[1]>

function row(at: number, more: Partial<DatasetRow> = {}): DatasetRow {
  return {
    sourceRowIndex: at,
    initialMessages: [{ role: 'user', content: 'What is the code?' }],
    label: 'same',
    metadata: { level: { of: 1 } },
    otherColumns: { source: 'book' },
    ...more,
  }
}

const inputs: RunInputs = {
  model: { name: '', base_url: null, params: {} },
  dataset: { name: 'rows', sha256: 'd0' },
  code: { rollout: 'rollout', kind: 'workflow', entrypoint: 'main.ts', sha256: 'c0', scorers: [] },
  workflow: { rolloutLimits: { modelCalls: 3 } },
  env: { MODE: 'e0' },
  secrets: ['TOKEN'],
  timeouts: { agent_seconds: 60, grader_seconds: 30, max_turns: null },
}

type Trained = NonNullable<Learner['trained']>

function learnerOf(
  name: string,
  modelFiles: string,
  trained: Trained = { '--lora-rank': 8 },
): KnownLearner {
  return Object.assign(new KnownLearner({}), { name, modelFiles, trained })
}

const rollouts = quickRollouts(({ attempt }) => attempt)

/** A training in which every option is set that can be. */
const started = {
  learner: learnerOf('base', '4 bytes, sha256 a'),
  rollouts,
  rows: [row(0), row(1)],
  heldOut: [row(2), row(3)],
  steps: 1,
  rowsPerStep: 2,
  attempts: 2,
  heldOutAttempts: 1,
  evaluateEvery: 0,
  passThreshold: 1,
  maxInFlight: 4,
  update: { learningRate: 0.5 },
  learningRateSchedule: 'linear',
  warmupSteps: 1,
  normalizeAdvantages: true,
  maskCutAnswers: false,
  maxStaleness: 0,
  warmStart: { steps: 1, threshold: 0.5 },
  curriculum: false,
  stopWhen: {},
  checkpointEvery: 1,
  keepCheckpoints: 3,
  seed: 1,
  names: { rollout: 'rollout', dataset: 'rows' },
  inputs,
  provenance: { sdk_version: '1', node_version: 'v1', config: null, git: null },
  redact: (data) => data,
  signal: AbortSignal.any([]),
  onWarning: () => {},
  onStep: () => {},
  onEvaluation: () => {},
  onProgress: () => {},
} satisfies Omit<TrainOptions, 'folder'>

/** A change of an option, and what the error says about it; without a text it is the same training. */
type Change = readonly [more: Partial<TrainOptions>, said?: string]

function changesOfRows(
  name: 'rows' | 'heldOut',
  said: string,
): Readonly<Record<keyof DatasetRow | 'number' | 'order', Change>> {
  const [first, second = row(9)] = started[name]
  const at = first?.sourceRowIndex ?? 0
  const change = (...rows: readonly DatasetRow[]): Change => [{ [name]: rows }, said]
  return {
    sourceRowIndex: change(row(7), second),
    initialMessages: change(
      row(at, { initialMessages: [{ role: 'user', content: 'What is the code!' }] }),
      second,
    ),
    label: change(row(at, { label: 'other' }), second),
    metadata: change(row(at, { metadata: { level: { of: 2 } } }), second),
    otherColumns: change(row(at, { otherColumns: { source: 'web' } }), second),
    number: change(row(at)),
    order: change(second, row(at)),
  }
}

function input(more: Partial<RunInputs>, said?: string): Change {
  const change = { inputs: { ...inputs, ...more } }
  return said === undefined ? [change] : [change, said]
}

function codeChange(more: Partial<RunInputs['code']>): Change {
  return input({ code: { ...inputs.code, ...more } }, 'code of the rollout: changed')
}

const changesOfCode: Readonly<Record<keyof RunInputs['code'] | 'order of keys', Change>> = {
  'order of keys': [
    {
      inputs: {
        ...inputs,
        code: Object.fromEntries(
          Object.entries(inputs.code).toReversed(),
        ) as unknown as RunInputs['code'],
      },
    },
  ],
  rollout: codeChange({ rollout: 'other' }),
  kind: codeChange({ kind: 'agent-loop' }),
  entrypoint: codeChange({ entrypoint: 'other.ts' }),
  sha256: codeChange({ sha256: 'c1' }),
  scorers: codeChange({ scorers: ['other'] }),
}

function limitChange(more: Partial<RunInputs['timeouts']>): Change {
  return input({ timeouts: { ...inputs.timeouts, ...more } })
}

const changesOfLimits: Readonly<Record<keyof RunInputs['timeouts'], Change>> = {
  agent_seconds: limitChange({ agent_seconds: 61 }),
  grader_seconds: limitChange({ grader_seconds: null }),
  max_turns: limitChange({ max_turns: 3 }),
}

/** What of the inputs belongs to the training: code and environment, and not how reports name things. */
const changesOfInputs: Readonly<Record<keyof RunInputs, Readonly<Record<string, Change>>>> = {
  model: { url: input({ model: { ...inputs.model, base_url: 'http://other.test' } }) },
  dataset: { file: input({ dataset: { name: 'others', sha256: 'd1' } }) },
  code: changesOfCode,
  workflow: {
    limits: input(
      { workflow: { rolloutLimits: { modelCalls: 4 } } },
      '[workflow] of the config: changed',
    ),
  },
  env: {
    value: input({ env: { MODE: 'e1' } }, '[env] of the config: changed'),
    names: input({ env: { MODE: 'e0', MORE: 'e0' } }, '[env] of the config: changed'),
  },
  secrets: { names: input({ secrets: ['TOKEN', 'OTHER'] }, '[secrets] of the config: changed') },
  timeouts: changesOfLimits,
}

/** One entry for each option of a training, so that a new one has to be decided about here. */
const changes: Readonly<
  Record<keyof Omit<Required<TrainOptions>, 'folder'>, Readonly<Record<string, Change>>>
> = {
  learner: {
    name: [{ learner: learnerOf('other', '4 bytes, sha256 a') }, '--model: was "base", is "other"'],
    files: [
      { learner: learnerOf('base', '4 bytes, sha256 b') },
      'files of the model (--model, --tokenizer): was "4 bytes, sha256 a", is "4 bytes, sha256 b"',
    ],
    'what is trained': [
      { learner: learnerOf('base', '4 bytes, sha256 a', { '--lora-rank': 16 }) },
      '--lora-rank: was 8, is 16',
    ],
  },
  rows: changesOfRows('rows', 'rows (dataset, --dataset, --where, --sample): changed'),
  heldOut: changesOfRows('heldOut', 'held-out rows (dataset, --held-out): changed'),
  rowsPerStep: {
    to: [{ rowsPerStep: 1 }, '--rows-per-step (rollout_batch_size): was 2, is 1'],
  },
  seed: { to: [{ seed: 2 }, '--seed: was 1, is 2'] },
  curriculum: { to: [{ curriculum: true }, 'training.curriculum: was false, is true'] },
  inputs: Object.fromEntries(
    Object.entries(changesOfInputs).flatMap(([name, own]) =>
      Object.entries(own).map(([field, change]) => [`${name}.${field}`, change]),
    ),
  ),

  // How the steps to come are made, how long it lasts, and what is reported may change.
  rollouts: { to: [{ rollouts: quickRollouts(({ attempt }) => 1 - attempt) }] },
  attempts: { to: [{ attempts: 3 }] },
  warmStart: {
    steps: [{ warmStart: { steps: 2, threshold: 0.5 } }],
    threshold: [{ warmStart: { steps: 1, threshold: 0.6 } }],
  },
  steps: { to: [{ steps: 2 }] },
  heldOutAttempts: { to: [{ heldOutAttempts: 2 }] },
  evaluateEvery: { to: [{ evaluateEvery: 1 }] },
  passThreshold: { to: [{ passThreshold: 0.5 }] },
  maxInFlight: { to: [{ maxInFlight: 1 }] },
  update: { to: [{ update: { learningRate: 0.25, loss: 'grpo' } }] },
  learningRateSchedule: { to: [{ learningRateSchedule: 'constant' }] },
  warmupSteps: { to: [{ warmupSteps: 0 }] },
  normalizeAdvantages: { to: [{ normalizeAdvantages: false }] },
  maskCutAnswers: { to: [{ maskCutAnswers: true }] },
  maxStaleness: { to: [{ maxStaleness: 1 }] },
  stopWhen: { to: [{ stopWhen: { reward: 9 } }] },
  checkpointEvery: { to: [{ checkpointEvery: 2 }] },
  keepCheckpoints: { to: [{ keepCheckpoints: 1 }] },
  names: { to: [{ names: { rollout: 'a', dataset: 'b' } }] },
  provenance: { to: [{ provenance: { ...started.provenance, sdk_version: '2' } }] },
  redact: { to: [{ redact: (data) => structuredClone(data) }] },
  signal: { to: [{ signal: new AbortController().signal }] },
  onWarning: { to: [{ onWarning: () => undefined }] },
  onStep: { to: [{ onStep: () => undefined }] },
  onEvaluation: { to: [{ onEvaluation: () => undefined }] },
  onProgress: { to: [{ onProgress: () => undefined }] },
}

const all = Object.entries(changes).flatMap(([option, own]) =>
  Object.entries(own).map(([what, [more, said]]) => ({ change: `${option}: ${what}`, more, said })),
)

const done = mkdtempSync(path.join(tmpdir(), 'osmosis-test-'))
beforeAll(async () => {
  await train({ ...started, folder: done })
})
afterAll(() => rmSync(done, { recursive: true, force: true }))

/** The training that is done, in a folder of its own, with a learner that is new unless a change has one. */
async function continued(
  more: Partial<TrainOptions>,
  change: (folder: string) => void = () => {},
): Promise<TrainResult> {
  const folder = path.join(await temporaryFolder(), 'training')
  cpSync(done, folder, { recursive: true })
  change(folder)
  const { name, modelFiles = '', trained }: Learner = more.learner ?? started.learner
  return train({ ...started, ...more, folder, learner: learnerOf(name, modelFiles, trained) })
}

describe('a training that continues', () => {
  it.each(all.filter(({ said }) => said !== undefined))(
    'refuses a change of $change',
    async ({ more, said }) => {
      const error = await continued(more).catch((thrown: unknown) => thrown)
      expect(error).toMatchObject({ code: 'invalid_config' })
      // The line, and nothing that did not change.
      const lines = (error as Error).message.split('\n').filter((line) => line.startsWith('- '))
      expect(lines).toEqual([`- ${said}`])
    },
  )

  it.each(all.filter(({ said }) => said === undefined))(
    'takes a change of $change',
    async ({ more }) => {
      // That of the warm start and those of the training.
      const { steps } = await continued({ steps: 2, ...more })
      expect(steps.length).toBeGreaterThanOrEqual(3)
    },
  )

  it.each(['model', 'model_files', 'trained', 'seed', 'curriculum'])(
    'takes one of an earlier version, which did not note %s',
    async (name) => {
      const { steps } = await continued({}, (folder) => {
        const file = path.join(folder, 'training.json')
        const noted = JSON.parse(readFileSync(file, 'utf8')) as object
        writeFileSync(file, JSON.stringify({ ...noted, [name]: undefined }))
      })
      expect(steps).toHaveLength(2)
    },
  )

  it('says which file is damaged when it cannot compare', async () => {
    let file = ''
    const error = await continued({}, (folder) => {
      file = path.join(folder, 'training.json')
      writeFileSync(file, '{"model":')
    }).catch((thrown: unknown) => thrown)
    expect(error).toMatchObject({
      code: 'damaged_run',
      message: expect.stringMatching(
        /^Cannot read \S+, which says what .*JSON.*: --fresh/,
      ) as string,
    })
    expect((error as Error).message).toContain(file)
  })

  it('has a refused change for all that was noted about it at its start', () => {
    const noted = JSON.parse(readFileSync(path.join(done, 'training.json'), 'utf8')) as object
    const names = Object.entries(noted).flatMap(([name, value]) =>
      name === 'inputs' || name === 'trained' ? Object.keys(value as object) : [name],
    )
    const refused = all.flatMap(({ said }) => said?.split(':')[0] ?? [])
    const expected = names.map((name) => called[name] ?? name)
    expect([...new Set(refused)].toSorted()).toEqual(expected.toSorted())
  })
})

describe('what an alarm advises', () => {
  const groups = { ...madeStep(1).batch, groups: 4, groupsWithSignal: 0 }
  const settings = { normalizeAdvantages: true, maxStaleness: 0, maskCutAnswers: false, update: {} }
  const timeout = (message: string): Made => ({
    rollouts: { failed: 3, failure: { type: 'timeout', rollouts: 3, message } },
  })
  /** Each raises another alarm, or another form of it. */
  const suspicious: readonly Made[] = [
    timeout('workflow exceeded its 1s deadline'),
    timeout('grader exceeded its 1s deadline'),
    { rollouts: { failed: 3, failure: { type: 'agent_error', rollouts: 3, message: 'no' } } },
    { update: { driftMean: 0.2 } },
    { update: { entropy: 0.001 } },
    { rollouts: { cutOff: 0.5 } },
    { rollouts: { contextFull: 0.5 } },
    { rollouts: { passRate: 0 }, batch: { ...groups, groupsWithSignal: 1 } },
    { rollouts: { passRate: 0 }, batch: groups },
    { rollouts: { passRate: 1 }, batch: groups },
    { phase: 'warm_start', batch: groups },
    { rollouts: { reward: 0, toolCalls: 0 }, update: { entropy: 9 } },
    { rollouts: { reward: 0.9, toolCalls: 0 } },
  ]
  const earlier = Array.from({ length: 6 }, (_, at) => madeStep(at + 1, { settings }))
  const alarms = suspicious.map((made) => alarmsOf(madeStep(7, { settings, ...made }), earlier))
  const keys = new Set(
    alarms
      .flat()
      .flatMap((text) => text.match(/--[a-z-]+|\b[a-z]+(?:_[a-z]+)+\b|\b(?:lr|kl)\b/g) ?? []),
  )

  /** What the keys that may change set; those of a new training have nothing to continue. */
  const advised: Readonly<Record<string, Partial<TrainOptions> | 'new training'>> = {
    agent_workflow_timeout_s: {
      inputs: { ...inputs, timeouts: { ...inputs.timeouts, agent_seconds: 90 } },
    },
    grader_timeout_s: {
      inputs: { ...inputs, timeouts: { ...inputs.timeouts, grader_seconds: 90 } },
    },
    max_response_length: {
      rollouts: quickRollouts(({ attempt }) => attempt),
      update: { longestAnswer: 9 },
      inputs: { ...inputs, model: { ...inputs.model, params: { max_tokens: 9 } } },
    },
    // Of the learner, which is made anew.
    max_prompt_length: { learner: started.learner },
    '--max-length': { learner: started.learner },
    rollout_temperature: {
      inputs: { ...inputs, model: { ...inputs.model, params: { temperature: 1.2 } } },
    },
    '--n': { attempts: 4 },
    '--warm-start': { warmStart: { steps: 1, threshold: 0.1 } },
    lr: { update: { learningRate: 0.1 } },
    kl: { update: { kl: 0.1 } },
    // Code is that of a new training, and so says the alarm.
    max_tokens: 'new training',
    agent_error: 'new training',
    '--fresh': 'new training',
    '--steps': 'new training',
    '--export': 'new training',
    '--model': 'new training',
    '--name': 'new training',
  }

  it('is raised by each of these steps', () => {
    expect(alarms.map(({ length }) => length > 0)).toEqual(suspicious.map(() => true))
  })

  it('may change when the training continues, or is a new training', async () => {
    expect([...keys].toSorted()).toEqual(Object.keys(advised).toSorted())
    for (const change of Object.values(advised)) {
      if (change === 'new training') continue
      const { steps } = await continued({ steps: 2, ...change })
      expect(steps.length).toBeGreaterThanOrEqual(3)
    }
  })
})

/** What errors call what was noted, where that is another word. */
const called: Readonly<Record<string, string>> = {
  model: '--model',
  model_files: 'files of the model (--model, --tokenizer)',
  rows: 'rows (dataset, --dataset, --where, --sample)',
  held_out_rows: 'held-out rows (dataset, --held-out)',
  rows_per_step: '--rows-per-step (rollout_batch_size)',
  seed: '--seed',
  curriculum: 'training.curriculum',
  code: 'code of the rollout',
  workflow: '[workflow] of the config',
  env: '[env] of the config',
  secrets: '[secrets] of the config',
}
