import { expect, it } from 'vitest'

import { inWorkspace, run as osmosis } from './in-process.ts'
import { temporaryWorkspace } from './temporary-workspace.ts'

inWorkspace()

const echo = 'rollouts/echo/main.ts'
const redis = ['--redis', 'redis://127.0.0.1:1']
const served = ['serve', echo, '--port', '0', ...redis]
const evaluated = 'eval run -m rollouts/echo/main.ts -d data/words.jsonl --policy policies/echo.ts'
const evaluation = [...evaluated.split(' '), '--output', 'unused']

it.each([
  {
    name: 'an outbox beside a queue',
    args: [...served, '--outbox', 'outbox'],
    said: '--outbox and --redis exclude each other: the queue already stores accepted rollouts until their results are delivered.',
  },
  {
    name: 'rollouts whose answer is their result over a queue',
    args: [...served, '--run'],
    said: '--run and --redis exclude each other: POST /run returns the result in its response, and a rollout in a queue may outlive the server. Serve without a queue, and add --workers for more processes.',
  },
  {
    name: 'worker processes of a server that runs nothing',
    args: [...served, '--workers', '2'],
    said: '--workers is a flag of osmosis worker: with --redis the server runs no rollouts.',
  },
  {
    name: 'a limit of a queue that is not named',
    args: ['serve', echo, '--max-rollouts', '3'],
    said: '--max-rollouts only applies to a queue: pass --redis as well.',
  },
  {
    name: 'an agent loop over a queue',
    args: ['serve', 'rollouts/agent-loops/adder.ts', ...redis],
    said: 'A queue runs workflows, and rollouts/agent-loops/adder.ts exports an agent loop, which its server has to run: start several servers of it instead, each on its own port.',
  },
  {
    name: 'limits of worker processes in a worker without them',
    args: ['worker', echo, ...redis, '--worker-memory', '100'],
    said: '--stall-timeout and --worker-memory are limits of workers: pass --workers as well.',
  },
  {
    name: 'plain keys in a Redis that is not on this machine',
    args: ['worker', echo, '--redis', 'redis://:secret@redis.example'],
    said: 'Keys of policies and callbacks would be readable in the Redis at redis://redis.example:6379. Give servers and workers a file of queue keys (OSMOSIS_QUEUE_KEY_FILE), or allow plain keys (OSMOSIS_ALLOW_PLAIN_KEYS=1).',
  },
  {
    name: 'Sentinels without the name of their primary',
    args: ['worker', echo, '--redis', 'redis+sentinel://:secret@h:1,h:2'],
    said: 'The address of --redis has a part that is no list of Sentinels, no name of their primary and no number of a database: write redis://host:6379, redis://user:password@host:6379/0, rediss:// for a Redis with TLS, or redis+sentinel://host:26379,host:26379/name for the primary that Sentinels know by a name.',
  },
  {
    name: 'plain keys in a Redis whose Sentinels are not on this machine',
    args: ['worker', echo, '--redis', 'redis+sentinel://:secret@127.0.0.1,redis.example:2/main'],
    said: 'Keys of policies and callbacks would be readable in the Redis at redis+sentinel://127.0.0.1:26379,redis.example:2/main. Give servers and workers a file of queue keys (OSMOSIS_QUEUE_KEY_FILE), or allow plain keys (OSMOSIS_ALLOW_PLAIN_KEYS=1).',
  },
])('refuses $name', async ({ args, said }) => {
  expect(await osmosis(args)).toEqual({ code: 2, stdout: '', stderr: `error: ${said}\n` })
})

it.each([
  {
    name: 'a Redis of another machine, whose workers could not reach its policy',
    queue: '[queue]\nredis = "redis://redis.example"\n',
    flags: [],
    said: 'Workers on other machines cannot reach the policy of this evaluation, which listens on 127.0.0.1. Pass --policy-host with the name or address under which they reach this machine, or --policy-host 127.0.0.1 if all of them run here.',
  },
  {
    name: 'Sentinels of another machine, whose workers could not reach its policy',
    queue: '[queue]\nredis = "redis+sentinel://127.0.0.1,redis.example/main"\n',
    flags: [],
    said: 'Workers on other machines cannot reach the policy of this evaluation, which listens on 127.0.0.1. Pass --policy-host with the name or address under which they reach this machine, or --policy-host 127.0.0.1 if all of them run here.',
  },
  {
    name: 'a policy host that is everywhere',
    queue: '[queue]\nredis = "redis://127.0.0.1:1"\n',
    flags: ['--policy-host', '0.0.0.0'],
    said: 'Other machines cannot reach the policy at 0.0.0.0: name an address of this machine.',
  },
  {
    name: 'a policy host without a queue',
    queue: '',
    flags: ['--policy-host', '10.0.0.5'],
    said: '--policy-host is for rollouts on other machines: name a running server with --server, or a queue in [queue] of osmosis.toml.',
  },
])('an evaluation over a queue is refused $name', async ({ queue, flags, said }) => {
  const root = temporaryWorkspace({ 'osmosis.toml': queue })
  const finished = await osmosis([...evaluation, ...flags], {}, root)
  expect(finished).toEqual({ code: 2, stdout: '', stderr: `error: ${said}\n` })
})
