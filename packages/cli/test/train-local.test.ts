import { appendFileSync, globSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'

import { examples, exampleFiles } from '@osmosis/create'
import { openRun } from '@osmosis/eval'
import { expect } from 'vitest'

import { withTorch } from '../../../test/kit/index.ts'
import { doorsTraining, doorsWorkspace } from './doors-workspace.ts'
import { run as osmosis } from './in-process.ts'
import { osmosis as osmosisProcess, startOsmosis } from './osmosis.ts'

const { it } = withTorch()
const fakes = '../../train/test/learner/stand_in/packages'
const limit = { tags: 'slow', timeout: 900_000 }

it('continues after Ctrl-C, refuses changed code, and is read and evaluated', limit, async () => {
  const { folder, learner } = await doorsWorkspace()
  const config = path.join(folder, doorsTraining)
  const text = readFileSync(config, 'utf8')
  const smaller = text.replace('rollout_batch_size = 16', 'rollout_batch_size = 8')
  writeFileSync(config, smaller.replace('[training]', '[training]\nsampling_batch = 3'))
  // 24 rows to train, and 6 held out.
  const data = path.join(folder, 'data/doors.jsonl')
  const rows = readFileSync(data, 'utf8').split('\n').slice(0, 30)
  writeFileSync(data, `${rows.join('\n')}\n`)
  const flags = ['--lora-rank', '8', '--steps', '3', '--n', '2']
  const args = ['train', 'local', doorsTraining, ...learner, ...flags]
  const PYTHONPATH = path.resolve(import.meta.dirname, fakes)
  const first = startOsmosis([...args, '--log', 'tensorboard'], { PYTHONPATH }, folder)
  await first.printed(/^step {3}1 /m)
  first.child.kill('SIGINT')
  const interrupted = await first.finished
  expect(interrupted.code).toBe(130)
  expect(interrupted.stderr).toContain('The same command continues with the training.')

  const main = path.join(folder, 'rollouts/doors/main.ts')
  const code = readFileSync(main, 'utf8')
  appendFileSync(main, '// changed\n')
  const changed = await osmosis(args, {}, folder)
  expect(changed.code).toBe(2)
  expect(changed.stderr).toContain('- code of the rollout: changed')
  expect(changed.stderr).toContain('--fresh')

  writeFileSync(main, code)
  const log = path.join(folder, '.osmosis/training/doors/learner.log')
  const before = readFileSync(log, 'utf8')
  const other = ['--lora-rank', '4', '--rows-per-step', '3']
  const unlike = await osmosis(['train', 'local', doorsTraining, ...learner, ...other], {}, folder)
  expect(unlike.code).toBe(2)
  expect(unlike.stderr).toContain('- --lora-rank: was 8, is 4')
  expect(unlike.stderr).toMatch(/^- --rows-per-step \(rollout_batch_size\): was \d+, is 3$/m)
  const long = await osmosis([...args, '--max-length', '99999999'], {}, folder)
  expect(long.stderr).toMatch(/--max-length 99999999 is more than the model takes: \d+ tokens/)

  // What alarms advise is taken: more attempts, and more tokens for an answer.
  expect(readFileSync(log, 'utf8')).toBe(before)
  writeFileSync(
    config,
    readFileSync(config, 'utf8').replace(/max_response_length = \d+/, 'max_response_length = 20'),
  )
  const whole = [...args.slice(0, -1), '3', '--export', 'merged', '--log', 'tensorboard']
  const continued = await osmosisProcess(whole, { PYTHONPATH }, folder)
  expect(continued.code).toBe(0)
  expect(continued.stderr).not.toMatch(/^step {3}1 /m)
  expect(continued.stderr).toMatch(/^step {3}3 /m)
  expect(continued.stdout).toContain('All steps are done.')
  expect(continued.stdout).toMatch(
    /^Serve it +vllm serve \S+doors\/model --dtype float32 --generation-config vllm --enable-auto/m,
  )
  expect(readdirSync(path.join(folder, '.osmosis/training/doors/model'))).toEqual(['whole.pt'])
  const events = globSync(path.join(folder, '.osmosis/training/doors/tensorboard/*'))
  const logged = readFileSync(events[0] ?? '', 'utf8').match(/(?<="Reward", [\d.]+, )\d+/g)
  expect([events.length, logged]).toEqual([1, ['1', '2', '3']])

  // No more rollouts begin than are sampled at once, because their time counts from then.
  const last = await openRun(path.join(folder, '.osmosis/training/doors/runs/step-0003'))
  expect(last.manifest.n).toBe(3)
  const times = last.sortedEvents.map(({ ended_at: at, duration_ms: took }) => {
    const end = Date.parse(at)
    return [end - took, end] as const
  })
  const beside = times.map(([at]) => times.filter(([start, end]) => start <= at && at < end).length)
  expect(Math.max(...beside)).toBeLessThanOrEqual(3)

  // Each step is a run.
  const curve = await osmosis(['eval', 'show', 'doors'], {}, folder)
  expect(curve.stdout).toContain('doors  finished · 3 of 3 steps')
  expect(curve.stdout).toMatch(/^Held out {2}reward 0\.\d+ → 0\.\d+$/m)
  const [step = ''] = /(?<=eval show )doors\/step-\d+/.exec(curve.stdout) ?? []
  const shown = await osmosis(['eval', 'show', step], {}, folder)
  expect(shown.stdout).toContain('Reward')
  const [row = ''] = /(?<=eval show doors )\d+/.exec(curve.stdout) ?? []
  const history = await osmosis(['eval', 'show', 'doors', row], {}, folder)
  expect(history.stdout).toMatch(new RegExp(`^Row ${row} of doors: `))
  const item = await osmosis(['eval', 'show', step, `${row}.1`], {}, folder)
  expect(item.stdout).toContain('What is the code of door')

  // Its checkpoints are evaluated with one learner, and compared.
  const entrypoint = ['-m', 'rollouts/doors/main.ts', '-d', 'data/doors.jsonl']
  const evaluate = ['eval', 'run', ...entrypoint, '--checkpoints', '.osmosis/training/doors']
  const selected = ['--rows', '0-1', '--n', '2', '--name', 'doors', '--json', '--quiet']
  const compared = await osmosisProcess([...evaluate, ...selected], {}, folder)
  expect(compared.code).toBe(0)
  const made = JSON.parse(compared.stdout) as { label: string; run: string; model: string }[]
  expect(made.length).toBeGreaterThanOrEqual(3)
  expect(made.at(-1)).toMatchObject({
    label: 'step-0003',
    run: 'doors-step-0003',
    model: expect.stringMatching(/@\d+$/),
  })
  const refused = await osmosis([...evaluate, '--model', 'gpt'], {}, folder)
  expect(refused.stderr).toContain('--model and --checkpoints exclude each other')
  const nowhere = await osmosis(['eval', 'run', ...entrypoint, '--checkpoints', 'data'], {}, folder)
  expect(nowhere.stderr).toContain('has no checkpoints of osmosis train local')
})

it('the commands of the example are those that it prints', { tags: 'slow' }, () => {
  const readme = exampleFiles('doors', 'doors').get('README.md') ?? ''
  for (const step of examples.doors.steps) expect(readme).toContain(`\n${step}\n`)
})

it(
  'the example learns: better by the comparison',
  { tags: 'nightly', timeout: 900_000 },
  async () => {
    const { folder, learner } = await doorsWorkspace()
    const config = path.join(folder, doorsTraining)
    const text = readFileSync(config, 'utf8')
    writeFileSync(config, text.replace('[training]', '[training]\npasses = 2'))
    const args = ['train', 'local', doorsTraining, ...learner, '--steps', '8']
    const plan = await osmosis([...args, '--dry-run'], {}, folder)
    expect(plan.code).toBe(0)
    expect(plan.stderr).toContain('64 to train, 16 held out')
    expect(plan.stderr).toContain('8 of 16 rows × 8 attempts = 1,024 rollouts')

    const { code, stdout, stderr } = await osmosis(args, {}, folder)
    expect(stderr).toMatch(/^step {3}1 {2}reward 0\.[0-4]/m)
    expect(stderr).toMatch(/^step {3}2 .* about .* left$/m)
    expect(stdout).toMatch(/^Better by 0\.\d+, with 95 % confidence/m)
    expect(code).toBe(0)
    expect(stderr).toMatch(/^Watch it .*osmosis eval view doors$/m)
  },
)

it(
  'refuses temperatures at which vLLM does not sample before anything is sampled',
  { tags: 'slow' },
  async () => {
    const { folder, learner } = await doorsWorkspace()
    const config = path.join(folder, doorsTraining)
    const text = readFileSync(config, 'utf8')
    const PATH = [path.resolve(import.meta.dirname, fakes, '..'), process.env['PATH']].join(':')
    const args = [
      'train',
      'local',
      doorsTraining,
      ...learner,
      '--lora-rank',
      '8',
      '--sampler',
      'vllm',
    ]
    for (const temperature of [0.005, 2.5]) {
      const changed = text.replace(
        /rollout_temperature = .*/,
        `rollout_temperature = ${temperature}`,
      )
      writeFileSync(config, changed)
      const refused = await osmosisProcess(args, { PATH }, folder)
      expect(refused).toMatchObject({ code: 2, stdout: '' })
      expect(refused.stderr).toContain(
        `sampling.rollout_temperature is ${temperature}, and vLLM samples at 0 and from 0.01 to 2.`,
      )
    }
  },
)
