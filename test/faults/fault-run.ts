import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'

import { freePort } from '../kit/free-port.ts'
import { LossyProxy } from '../kit/lossy-proxy.ts'
import { Account } from './account.ts'
import { breakDelivery, type WayToBreak } from './broken-delivery.ts'
import { Callers } from './callers.ts'
import { chances, type Chance } from './chance.ts'
import { planOf } from './plan.ts'
import { ServedProcess } from './served-process.ts'
import { World } from './world.ts'

export interface FaultRun {
  readonly rollouts: number
  readonly seed: number
  /** How long a caller waits for the end of its rollout. */
  readonly patienceSeconds: number
  /** Breaks deliveries, which the account must detect. */
  readonly breaks: WayToBreak | undefined
}

/** Concurrent rollouts. */
const inFlight = 192
/** A server is ended once per this number of rollouts, and at least four times. */
const incidentEvery = 1000
const progressMs = 10_000

/** Runs rollouts of all kinds against failing servers, callers and policies. The account has the result. */
export async function runFaults(run: FaultRun): Promise<Account> {
  const { rollouts, seed, patienceSeconds, breaks } = run
  const chance = chances(seed)
  const account = new Account({ chance })
  const parts = { account, chance, broken: breakDelivery(breaks, chance), patienceSeconds }
  const world = await new World(parts).start()
  const folder = await mkdtemp(path.join(tmpdir(), 'osmosis-faults-'))
  const onTrouble = (what: string): void => {
    console.log(what)
    account.violated('-', what)
  }
  const workflows = new ServedProcess(await freePort(), {
    name: 'workflows',
    args: [
      'served/workflow.ts',
      '--no-trajectories',
      `--outbox=${path.join(folder, 'workflows')}`,
      '--workers=2',
      '--stall-timeout=3',
      '--worker-memory=96',
    ],
    onTrouble,
  })
  const loops = new ServedProcess(await freePort(), {
    name: 'loops',
    args: ['served/loop.ts', `--outbox=${path.join(folder, 'loops')}`],
    env: {
      OSMOSIS_ROLLOUT_CLIENT_TIMEOUT_SECONDS: '3',
      OSMOSIS_ROLLOUT_CLIENT_RETRY_BASE_DELAY: '0.2',
    },
    onTrouble,
  })
  const servers = { workflows, loops }
  await Promise.all([workflows.start(), loops.start()])
  const proxy = await lossyProxy(workflows.url, account, chance)
  const lossy = proxy.url
  const callers = new Callers(parts, {
    world: world.url,
    workflows: workflows.url,
    loops: loops.url,
    lossy,
  })

  const over = new AbortController()
  const incidentParts = { servers, account, chance, signal: over.signal }
  const incidents = Promise.all([
    killWorkers(incidentParts),
    // The account should detect only the broken deliveries.
    breaks === undefined ? restartServers(incidentParts, rollouts) : undefined,
  ])
  const progress = setInterval(() => {
    console.log(`${account.endedCount} of ${rollouts} have ended`)
  }, progressMs)
  const indexes = Array.from({ length: rollouts }, (_, index) => index).values()
  const drive = async (): Promise<void> => {
    for (const index of indexes) {
      await callers.drive(planOf(index, chance))
    }
  }
  await Promise.all(Array.from({ length: inFlight }, drive))
  over.abort()
  clearInterval(progress)
  await incidents
  await checkServers(account, callers, [workflows.url, loops.url])
  await Promise.all([workflows.end('SIGTERM'), loops.end('SIGTERM')])
  await callers.close()
  await proxy[Symbol.asyncDispose]()
  world.close()
  await rm(folder, { recursive: true, maxRetries: 3 })
  return account
}

async function lossyProxy(url: string, account: Account, chance: Chance): Promise<LossyProxy> {
  const proxy = await new LossyProxy(url).start()
  let polls = 0
  proxy.fault = ({ url: asked = '' }) => {
    if (!asked.endsWith('/result')) return undefined
    polls += 1
    const luck = chance('proxy', polls)
    if (luck > 0.06) return undefined
    account.fault('proxy: loses a poll')
    return luck < 0.03 ? 'request' : 'answer'
  }
  return proxy
}

interface IncidentParts {
  readonly servers: { readonly workflows: ServedProcess; readonly loops: ServedProcess }
  readonly account: Account
  readonly chance: Chance
  /** Aborted when the run has ended. */
  readonly signal: AbortSignal
}

/** Kills a worker every few seconds. */
async function killWorkers({ servers, account, chance, signal }: IncidentParts): Promise<void> {
  for (let turn = 0; ; turn += 1) {
    await sleep(2000 + chance('kill', turn) * 6000, undefined, { signal }).catch(() => undefined)
    if (signal.aborted) return
    if (await servers.workflows.killWorker(chance('worker', turn))) {
      account.fault('servers: SIGKILL of a worker')
    }
  }
}

/** Restarts servers in turn, paced by the progress of the run. */
async function restartServers(
  { servers: { workflows, loops }, account, signal }: IncidentParts,
  rollouts: number,
): Promise<void> {
  const restarts = [
    [workflows, 'SIGKILL', 'workflows'],
    [loops, 'SIGKILL', 'loops'],
    [workflows, 'SIGTERM', 'workflows'],
    [loops, 'SIGTERM', 'loops'],
  ] as const
  const count = Math.max(restarts.length, Math.round(rollouts / incidentEvery))
  for (let next = 0; next < count && !signal.aborted;) {
    await sleep(100)
    if (account.endedCount < ((next + 0.5) / count) * rollouts) continue
    const [server, how, name] = restarts[next % restarts.length] ?? restarts[0]
    account.fault(`servers: ${how} of ${name}`)
    await server.restart(how)
    console.log(`${how} of ${name}: started again`)
    next += 1
  }
}

/** Compares the state of the servers with the account after the run. */
async function checkServers(
  account: Account,
  callers: Callers,
  urls: readonly string[],
): Promise<void> {
  for (const url of urls) {
    for (let tries = 0; !(await isDone(url)); tries += 1) {
      if (tries > 300) return account.violated('-', `${url} is still busy`)
      await sleep(200)
    }
  }
  await callers.checkStates({ mayForget: true })
}

/** Whether no rollout is running and no outcome is pending. */
async function isDone(url: string): Promise<boolean> {
  const answer = await fetch(`${url}/health`).catch(() => undefined)
  const { undelivered, active_rollouts, lifecycle } = ((await answer?.json()) ?? {}) as Health
  const active = lifecycle?.active_rollouts ?? active_rollouts
  return active === 0 && undelivered === 0
}

interface Health {
  readonly undelivered?: number
  readonly active_rollouts?: number
  readonly lifecycle?: { readonly active_rollouts: number }
}
