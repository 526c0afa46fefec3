import { Command } from '@commander-js/extra-typings'
import { describe, expect, it } from 'vitest'

import { flagArguments } from '../src/command/flags.ts'
import { assertServable, planServe, type ServePlan } from '../src/serve/serve-plan.ts'
import { declareServe } from '../src/serve/serve.ts'
import { declareLocal } from '../src/train/local.ts'
import { planWorker, type WorkerPlan } from '../src/worker/worker-plan.ts'
import { declareWorker } from '../src/worker/worker.ts'

// What these flags do is tested where servers and workers run; here no process starts and no file is read.

const file = 'main.ts'

function words(line: string): string[] {
  return line.split(' ').filter((word) => word !== '')
}

function served(line: string): ServePlan {
  const command = declareServe(new Command())
  command.parse(words(line), { from: 'user' })
  return planServe(command.args[0], command.opts())
}

function worker(line: string): WorkerPlan {
  const command = declareWorker(new Command())
  command.parse([file, ...words(line)], { from: 'user' })
  return planWorker(file, command.opts())
}

const redis = '--redis redis://h:1'

describe('serve', () => {
  it.each([
    ['', 'Name one entrypoint'],
    [`${file} -m ${file}`, 'Name one entrypoint'],
    [`${file} --public-host h`, '--public-host only applies to a registration'],
    [`${file} --register --no-auth`, '--register and --no-auth exclude each other'],
    [`${file} --max-rollouts 3`, '--max-rollouts only applies to a queue'],
    [`${file} --max-queue-depth 3`, '--max-queue-depth only applies to a queue'],
    [`${file} ${redis} --outbox o`, '--outbox and --redis exclude each other'],
    [`${file} ${redis} --run`, '--run and --redis exclude each other'],
    [`${file} ${redis} --workers 2`, '--workers is a flag of osmosis worker'],
    [`${file} ${redis} --stall-timeout 2`, '--stall-timeout is a flag of osmosis worker'],
    [`${file} ${redis} --worker-memory 64`, '--worker-memory is a flag of osmosis worker'],
    [`${file} ${redis} --record r`, '--record is a flag of osmosis worker'],
    [`${file} --reward mean`, 'only apply to POST /run'],
    [`${file} --run --group-size 2`, '--group-size needs --group-column'],
    [`${file} --api-key k --api-key-file f`, '--api-key and --api-key-file exclude each other'],
    [`${file} --stall-timeout 2`, 'are limits of workers: pass --workers as well'],
  ])('refuses "%s"', (line, said) => {
    expect(() => served(line)).toThrow(said)
  })

  it.each([
    ['workflow', 1, '--register', '--register is for agent loops'],
    ['workflow', 1, '--log traces', '--log is for agent loops'],
    ['workflow', 2, '--run', 'pass --group-column and --group-size'],
    ['agent-loop', null, '--set turns=3', '--set is for workflows'],
    ['agent-loop', null, '--record r', '--record is for workflows'],
    ['agent-loop', null, '--run', '--run is for workflows'],
    ['agent-loop', null, '--register --public-host h', '--register needs a key'],
    ['agent-loop', null, '--register --api-key k', 'Other machines cannot reach the server at 127'],
  ] as const)('of a %s (groups of %s) refuses "%s"', (kind, groupMinSize, flags, said) => {
    const plan = served(`${file} ${flags}`)
    const hasKey = plan.keys.key !== undefined
    expect(() => assertServable(plan, { kind, groupMinSize, file }, hasKey)).toThrow(said)
  })

  it('a server of a queue runs no rollouts, and one with --no-auth needs no key', () => {
    expect(served(`${file} ${redis} --max-rollouts none --no-auth --set turns=3`)).toMatchObject({
      entrypoint: file,
      queue: { redis: 'redis://h:1', maxRollouts: 'none' },
      keys: { areRequired: false },
      processes: undefined,
      set: { turns: 3 },
    })
  })
})

describe('worker', () => {
  const lightning = '--agent-lightning http://h:1'

  it.each([
    ['', 'Name one source of rollouts'],
    [`${redis} ${lightning}`, '--redis and --agent-lightning exclude each other'],
    [`${redis} --reward mean`, '--reward only applies to a trainer'],
    [`${redis} --group-column c`, '--group-column only applies to a trainer'],
    [`${redis} --rows rows.ts`, '--rows only applies to a trainer'],
    [`${lightning} --lock-duration 3`, '--lock-duration only applies to a queue'],
    [`${lightning} --max-model-calls 3`, '--max-model-calls only applies to a queue'],
    [`${lightning} --group-size 3`, '--group-size needs --group-column'],
    [`${redis} --worker-memory 64`, 'are limits of workers: pass --workers as well'],
  ])('refuses "%s"', (line, said) => {
    expect(() => worker(line)).toThrow(said)
  })

  it('has the flags of its source, and of its processes', () => {
    const flags = '--workers auto --stall-timeout 5 --drain-timeout 0 --no-private-hosts'
    expect(worker(`${redis} --lock-duration 3 ${flags}`)).toMatchObject({
      source: { kind: 'queue', redis: 'redis://h:1', lockDuration: 3 },
      processes: { count: 'auto', stallTimeoutSeconds: 5 },
      drainSeconds: 0,
      egress: { privateAddresses: 'refuse' },
    })
  })
})

it('a training that continues shows its figures in all programs that it named', () => {
  const command = declareLocal(new Command())
  command.parse(words('c.toml --log tensorboard,wandb'), { from: 'user' })
  const flags = command.opts()
  const repeated = flagArguments(flags, new Set(), declareLocal(new Command()).opts())
  expect(repeated).toEqual(words('--log tensorboard --log wandb'))
  const again = declareLocal(new Command())
  again.parse(['c.toml', ...repeated], { from: 'user' })
  expect(again.opts()).toEqual(flags)
})
