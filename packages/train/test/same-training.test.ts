import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'

import type { DatasetRow } from '@osmosis/eval'
import type { RunInputs } from '@osmosis/eval/analysis'
import { temporaryFolder } from '../../../test/kit/index.ts'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'

import {
  train,
  type Learner,
  type RolloutSource,
  type TrainOptions,
  type TrainResult,
} from '@osmosis/train'
import { KnownLearner } from './known-rollouts.ts'
import { quickRollouts } from './quick-rollouts.ts'

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

function learnerOf(name: string, modelFiles: string): KnownLearner {
  return Object.assign(new KnownLearner({}), { name, modelFiles })
}

function rolloutsOf(source: Partial<RolloutSource>): TrainOptions['rollouts'] {
  return quickRollouts(({ attempt }) => attempt, source)
}

const sampling = { temperature: 1, max_tokens: 50 }

/** A training in which every option is set that can be. */
const started = {
  learner: learnerOf('base', '4 bytes, sha256 a'),
  rollouts: rolloutsOf({ sampling }),
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

const changesOfCode: Readonly<Record<keyof RunInputs['code'], Change>> = {
  rollout: codeChange({ rollout: 'other' }),
  kind: codeChange({ kind: 'agent-loop' }),
  entrypoint: codeChange({ entrypoint: 'other.ts' }),
  sha256: codeChange({ sha256: 'c1' }),
  scorers: codeChange({ scorers: ['other'] }),
}

function limitChange(more: Partial<RunInputs['timeouts']>): Change {
  return input({ timeouts: { ...inputs.timeouts, ...more } }, 'time limits: changed')
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
      'fields of the config of the workflow: changed',
    ),
  },
  env: {
    value: input({ env: { MODE: 'e1' } }, 'env of the config: changed'),
    names: input({ env: { MODE: 'e0', MORE: 'e0' } }, 'env of the config: changed'),
  },
  secrets: { names: input({ secrets: ['TOKEN', 'OTHER'] }, 'secrets of the config: changed') },
  timeouts: changesOfLimits,
}

/** One entry for each option of a training, so that a new one has to be decided about here. */
const changes: Readonly<
  Record<keyof Omit<Required<TrainOptions>, 'folder'>, Readonly<Record<string, Change>>>
> = {
  learner: {
    name: [{ learner: learnerOf('other', '4 bytes, sha256 a') }, 'model: was "base", is "other"'],
    files: [
      { learner: learnerOf('base', '4 bytes, sha256 b') },
      'model_files: was "4 bytes, sha256 a", is "4 bytes, sha256 b"',
    ],
  },
  rollouts: {
    'a setting': [
      { rollouts: rolloutsOf({ sampling: { ...sampling, temperature: 0.5 } }) },
      'sampling: was {"temperature":1,"max_tokens":50}, is {"temperature":0.5,"max_tokens":50}',
    ],
    'one setting less': [
      { rollouts: rolloutsOf({ sampling: { temperature: 1 } }) },
      'sampling: was {"temperature":1,"max_tokens":50}, is {"temperature":1}',
    ],
  },
  rows: changesOfRows('rows', 'rows: changed'),
  heldOut: changesOfRows('heldOut', 'held-out rows: changed'),
  rowsPerStep: { to: [{ rowsPerStep: 1 }, 'rows_per_step: was 2, is 1'] },
  attempts: { to: [{ attempts: 3 }, 'attempts: was 2, is 3'] },
  seed: { to: [{ seed: 2 }, 'seed: was 1, is 2'] },
  curriculum: { to: [{ curriculum: true }, 'curriculum: was false, is true'] },
  warmStart: {
    steps: [
      { warmStart: { steps: 2, threshold: 0.5 } },
      'warm_start: was {"steps":1,"threshold":0.5}, is {"steps":2,"threshold":0.5}',
    ],
    threshold: [
      { warmStart: { steps: 1, threshold: 0.6 } },
      'warm_start: was {"steps":1,"threshold":0.5}, is {"steps":1,"threshold":0.6}',
    ],
  },
  inputs: Object.fromEntries(
    Object.entries(changesOfInputs).flatMap(([name, own]) =>
      Object.entries(own).map(([field, change]) => [`${name}.${field}`, change]),
    ),
  ),

  // How the steps to come are made, how long it lasts, and what is reported may change.
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
  const { name, modelFiles = '' }: Learner = more.learner ?? started.learner
  return train({ ...started, ...more, folder, learner: learnerOf(name, modelFiles) })
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
      // That of the warm start and that of the training.
      const { steps } = await continued(more)
      expect(steps.length).toBeGreaterThanOrEqual(2)
    },
  )

  it.each(['model', 'model_files', 'sampling', 'seed', 'warm_start', 'curriculum'])(
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

  it('has a refused change for all that was noted about it at its start', () => {
    const noted = JSON.parse(readFileSync(path.join(done, 'training.json'), 'utf8')) as object
    const names = Object.entries(noted).flatMap(([name, value]) =>
      name === 'inputs' ? Object.keys(value as object).map((key) => contents[key] ?? key) : [name],
    )
    const refused = all.flatMap(({ said }) => said?.split(':')[0] ?? [])
    const expected = names.map((name) => contents[name] ?? name)
    expect([...new Set(refused)].toSorted()).toEqual(expected.toSorted())
  })
})

/** What errors call what was noted, where that is another word. */
const contents: Readonly<Record<string, string>> = {
  held_out_rows: 'held-out rows',
  code: 'code of the rollout',
  workflow: 'fields of the config of the workflow',
  env: 'env of the config',
  secrets: 'secrets of the config',
  timeouts: 'time limits',
}
