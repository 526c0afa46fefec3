// A queue on this machine: Redis, a server, two workers, and 200 rollouts. One of the workers is killed
// when half of them have ended. Prints the outcome of each.
//
//   npx -y pnpm@12 run demo:distributed
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'

import {
  createController,
  type PolicyModel,
  type RolloutOrder,
  type RolloutOutcome,
} from '@osmosis/controller'

import { policy } from '../policies/arithmetic.ts'
import { Account } from './account.ts'
import { startOsmosis, startRedis, stop } from './processes.ts'

const rollouts = 200
/** Concurrent rollouts of each worker. */
const concurrency = 16
/** A worker that is silent for longer counts as lost. Seconds; the default is 30. */
const lockSeconds = 5

const entrypoint = 'examples/distributed/rollout/main.ts'
const say = (text: string): void => void process.stdout.write(`${text}\n`)

const folder = mkdtempSync(path.join(tmpdir(), 'osmosis-distributed-'))
process.once('exit', () => rmSync(folder, { recursive: true, force: true }))
try {
  process.exitCode = await demo()
} catch (error) {
  process.stderr.write(`error: ${(error as Error).message}\n`)
  process.exitCode = 1
}
process.exit()

async function demo(): Promise<number> {
  const redis = await startRedis(folder)
  say(`Redis on ${redis}`)
  const queue = ['--redis', redis]
  const serve = ['serve', entrypoint, '--port', '0', '--no-trajectories', ...queue]
  const serving = await startOsmosis(serve, /Listening on (\S+)/)
  const server = { url: serving.found[1] ?? '' }
  const limits = ['--concurrency', String(concurrency), '--lock-duration', String(lockSeconds)]
  const work = ['worker', entrypoint, ...queue, ...limits]
  const workers = await Promise.all([
    startOsmosis(work, /Taking rollouts/),
    startOsmosis(work, /Taking rollouts/),
  ])
  say(`A server on ${server.url}, and two workers of ${concurrency} rollouts each`)

  const account = new Account()
  const controller = await createController({
    policy: slow(policy),
    server,
    onConflict: ({ rolloutId, kind }) => account.contradicted(rolloutId, kind),
  })
  const began = performance.now()
  const seconds = (): string => `${((performance.now() - began) / 1000).toFixed(1)} s`
  const [victim, survivor] = workers
  let ended = 0
  const onTerminal = (outcome: RolloutOutcome): void => {
    account.ended(outcome)
    ended += 1
    if (ended !== rollouts / 2) return
    victim.child.kill('SIGKILL')
    say(`${seconds()}: ${ended} rollouts have ended, and one worker is killed (kill -9)`)
  }
  say(`${rollouts} rollouts are sent`)
  const orders = readOrders()
  await Promise.all(orders.map(async (order) => controller.run(order, { onTerminal })))
  say(`${seconds()}: all of them have ended\n`)
  await stop(survivor)
  await stop(serving)
  await controller.close()
  const { text, complete } = account.close(
    orders.map(({ rolloutId }) => rolloutId),
    workers.map(({ log }) => log),
  )
  say(text)
  return complete ? 0 : 1
}

interface Row {
  readonly system_prompt: string
  readonly user_prompt: string
  readonly ground_truth: string
}

function readOrders(): (RolloutOrder & { rolloutId: string })[] {
  const file = path.resolve(import.meta.dirname, '../data/multiply.jsonl')
  const lines = readFileSync(file, 'utf8').trimEnd().split('\n').slice(0, rollouts)
  return lines.map((line, number) => {
    const row = JSON.parse(line) as Row
    return {
      rolloutId: `demo-${String(number + 1).padStart(3, '0')}`,
      initialMessages: [
        { role: 'system', content: row.system_prompt },
        { role: 'user', content: row.user_prompt },
      ],
      label: row.ground_truth,
    }
  })
}

/** A policy that takes as long as a model would for a few words. */
function slow(model: PolicyModel): PolicyModel {
  return {
    name: model.name,
    async respond(request) {
      await sleep(200 + 400 * Math.random())
      return model.respond(request)
    },
  }
}
