import { expect, it } from 'vitest'

import { inWorkspace, run as osmosis } from './in-process.ts'

inWorkspace()

const echo = 'rollouts/echo/main.ts'
const lightning = ['--agent-lightning', 'http://127.0.0.1:1']
const trinity = ['--trinity', 'http://127.0.0.1:1', '--attempts', '8', '--groups-per-commit', '4']

it.each([
  {
    name: 'a worker that takes rollouts from nowhere',
    args: ['worker', echo],
    said: 'Name one source of rollouts for the worker: --redis <url>, --agent-lightning <url>, or --trinity <url>.',
  },
  {
    name: 'two sources of rollouts',
    args: ['worker', echo, ...lightning, '--redis', 'redis://127.0.0.1:1'],
    said: '--redis and --agent-lightning exclude each other: a worker has one source of rollouts.',
  },
  {
    name: 'a flag of queues beside a trainer',
    args: ['worker', echo, ...lightning, '--lock-duration', '3'],
    said: '--lock-duration only applies to a queue: it needs --redis.',
  },
  {
    name: 'a flag of trainers beside a queue',
    args: ['worker', echo, '--redis', 'redis://127.0.0.1:1', '--reward', 'mean'],
    said: '--reward only applies to a trainer: with a queue its servers decide this.',
  },
  {
    name: 'a trainer without a URL',
    args: ['worker', echo, '--agent-lightning', 'gateway:8080'],
    said: 'The URL of the gateway of Agent Lightning is not an http or https URL: "gateway:8080". Write it like http://127.0.0.1:8080.',
  },
  {
    name: 'a flag of Trinity beside Agent Lightning',
    args: ['worker', echo, ...lightning, '--attempts', '8'],
    said: '--attempts only applies to Trinity: it needs --trinity.',
  },
  {
    name: 'a flag of Agent Lightning beside Trinity',
    args: ['worker', echo, ...trinity, '--reward', 'mean'],
    said: '--reward only applies to Agent Lightning: it needs --agent-lightning.',
  },
  {
    name: 'Trinity without a dataset',
    args: ['worker', echo, ...trinity],
    said: 'Trinity needs a dataset: pass --dataset <file> --attempts <n> --groups-per-commit <n>.',
  },
  {
    name: 'a module of rows that has none',
    args: ['worker', echo, ...lightning, '--rows', echo],
    said: "rollouts/echo/main.ts has no export 'rows'. Its exports: EchoGrader, EchoWorkflow.",
  },
])('refuses $name', async ({ args, said }) => {
  expect(await osmosis(args)).toEqual({ code: 2, stdout: '', stderr: `error: ${said}\n` })
})

it('refuses a key that cannot be sent, by the name of its variable', async () => {
  const args = ['worker', echo, ...lightning]
  expect(await osmosis(args, { OSMOSIS_TRAINER_KEY: 'key\n' })).toEqual({
    code: 2,
    stdout: '',
    stderr:
      'error: OSMOSIS_TRAINER_KEY must be visible ASCII characters without spaces and line breaks: callers send it in a header.\n',
  })
})
