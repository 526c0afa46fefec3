import { invalid } from '../command/wrong-use.ts'
import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { readFile, realpath } from 'node:fs/promises'
import path from 'node:path'

import type * as bullmq from '@osmosis/bullmq'
import { errorMessage, OsmosisError } from '@osmosis/core'
import { isGroupGraderClass, overridesText } from '@osmosis/core/workflow'
import {
  parseRedisAddress,
  redisAddressText,
  redisPlace,
  type RedisAddress,
} from '@osmosis/protocol/wire'
import { build, stop } from 'esbuild'

import { environment, displayPath, hideKeys } from '../command/command-context.ts'
import type { LoadedEntrypoint } from '../inputs/load-entrypoint.ts'
import { moduleFile } from '../inputs/load-module.ts'

type QueuePackage = typeof bullmq

/** What a process needs to use a queue. */
interface QueueAccess {
  readonly queuePackage: QueuePackage
  readonly connection: bullmq.QueueConnectionOptions
  /** Human-readable name of the queue. */
  readonly place: string
  /**
   * Version that servers and workers compare: OSMOSIS_CODE_VERSION, else a digest of the sources. With other values of the
   * config it is another version.
   */
  readonly code: string
}

/**
 * Reads the settings of a queue from the environment, without connecting to it.
 *
 * @param redis - the flag of that name
 * @param set - other values for fields of the workflow's config
 * @throws OsmosisError with code `invalid_config`, also when @osmosis/bullmq is not installed;
 * `invalid_entrypoint` when the sources of the entrypoint cannot be found
 */
export async function queueAccess(
  redis: string,
  entrypoint: string,
  set: Readonly<Record<string, unknown>> = {},
): Promise<QueueAccess> {
  const env = environment()
  const address = redisAddress(redis, env['OSMOSIS_REDIS_PASSWORD'])
  hideKeys(env['OSMOSIS_REDIS_SENTINEL_PASSWORD'])
  const queuePackage = await loadQueuePackage()
  const prefix = env['OSMOSIS_REDIS_PREFIX'] || undefined
  const keyFile = env['OSMOSIS_QUEUE_KEY_FILE'] || undefined
  const keys = keyFile === undefined ? undefined : readKeys(queuePackage, keyFile)
  const allowPlainKeys = env['OSMOSIS_ALLOW_PLAIN_KEYS'] === '1'
  return {
    queuePackage,
    connection: {
      url: redisAddressText(address),
      sentinelPassword: env['OSMOSIS_REDIS_SENTINEL_PASSWORD'] || undefined,
      prefix,
      keys,
      allowPlainKeys,
    },
    place: `the queue ${prefix ?? 'osmosis'} at ${redisPlace(address)}`,
    code: versionWith(set, env['OSMOSIS_CODE_VERSION'] || (await entrypointDigest(entrypoint))),
  }
}

function versionWith(set: Readonly<Record<string, unknown>>, version: string): string {
  if (Object.keys(set).length === 0) return version
  const digest = createHash('sha256')
    .update(`${version} ${overridesText(set)}`)
    .digest('hex')
  return isDigest(version) ? digest : `${version} --set ${digest.slice(0, 12)}`
}

/**
 * The workflow of an entrypoint.
 *
 * @param what - names the part that runs workflows only
 * @throws OsmosisError with code `invalid_config` for an agent loop
 */
export function onlyWorkflow(
  loaded: LoadedEntrypoint,
  what: string,
): Extract<LoadedEntrypoint, { kind: 'workflow' }> {
  if (loaded.kind === 'workflow') return loaded
  throw invalid(
    `${what} runs workflows, and ${loaded.file} exports an agent loop, which its server has to run: start several servers of it instead, each on its own port.`,
  )
}

/**
 * The workflow of an entrypoint, for a queue.
 *
 * @throws OsmosisError with code `invalid_config` for an agent loop, and for a grader of groups
 */
export function queuedWorkflow(loaded: LoadedEntrypoint): ReturnType<typeof onlyWorkflow> {
  const workflow = onlyWorkflow(loaded, 'A queue')
  const { grader } = workflow.entrypoint
  if (!isGroupGraderClass(grader)) return workflow
  throw invalid(
    `A queue spreads the attempts at a row over its workers, and ${grader.name} of ${loaded.file} is a GroupGrader, which has to see all of them: leave out --redis.`,
  )
}

/** Human-readable summary of the workers with this code. */
export function workersText(workers: readonly bullmq.QueueWorker[], code: string): string {
  const own = workers.filter((worker) => worker.code === code)
  const slots = own.reduce((sum, { concurrency }) => sum + concurrency, 0)
  const others = workers.length - own.length
  const mine =
    own.length === 0
      ? 'no worker yet, rollouts wait for one'
      : `${counted(own.length, 'worker')} for ${counted(slots, 'rollout')}`
  return others === 0 ? mine : `${mine}; ${counted(others, 'worker')} with other code`
}

function counted(count: number, what: string): string {
  return `${count} ${what}${count === 1 ? '' : 's'}`
}

/** A version of the code, shortened for messages. */
export function shortCode(code: string): string {
  return isDigest(code) ? code.slice(0, 12) : code
}

function isDigest(code: string): boolean {
  return /^[\da-f]{64}$/.test(code)
}

/** Only users of a queue install the package. */
async function loadQueuePackage(): Promise<QueuePackage> {
  try {
    return await import('@osmosis/bullmq')
  } catch (error) {
    const isMissing = (error as NodeJS.ErrnoException).code === 'ERR_MODULE_NOT_FOUND'
    if (!isMissing || !errorMessage(error).includes("'@osmosis/bullmq'")) throw error
    throw invalid('--redis needs the package @osmosis/bullmq: npm install @osmosis/bullmq.')
  }
}

function readKeys(queuePackage: QueuePackage, file: string): bullmq.QueueKeys {
  let text: string
  try {
    text = readFileSync(displayPath(file), 'utf8')
  } catch (error) {
    throw invalid(`OSMOSIS_QUEUE_KEY_FILE cannot be read: ${errorMessage(error)}`)
  }
  return queuePackage.QueueKeys.parse(text)
}

/**
 * The address that `--redis` names, with the password of the environment when it has none. That is taken as it is.
 *
 * @throws OsmosisError with code `invalid_config`; no part of a user or password is in it
 */
export function redisAddress(redis: string, password: string | undefined): RedisAddress {
  const address = parseRedisAddress(redis)
  if (typeof address === 'string') throw invalid(`The address of --redis ${address}.`)
  const whole = { ...address, password: address.password ?? (password || undefined) }
  hideKeys(whole.password)
  return whole
}

/**
 * SHA-256 in hexadecimal of an entrypoint and everything that it imports by relative names, by `paths` of
 * tsconfig.json or by `imports` of package.json. It is the same on every machine and in every folder, and
 * does not depend on node_modules.
 *
 * @throws OsmosisError with code `invalid_entrypoint` when the imports cannot be followed
 */
export async function entrypointDigest(entrypoint: string): Promise<string> {
  const file = await realpath(moduleFile('entrypoint', entrypoint))
  const folder = path.dirname(file)
  const digest = createHash('sha256')
  for (const name of (await sourcesOf(file, entrypoint)).toSorted()) {
    // The files and not the output of esbuild, which differs between its versions.
    const bytes = await readFile(path.join(folder, name))
    digest.update(`${name}\0${bytes.length}\0`).update(bytes)
  }
  return digest.digest('hex')
}

/** The sources of an entrypoint, relative to its folder. */
async function sourcesOf(file: string, entrypoint: string): Promise<string[]> {
  try {
    const { metafile } = await build({
      entryPoints: [file],
      absWorkingDir: path.dirname(file),
      bundle: true,
      packages: 'external',
      platform: 'node',
      format: 'esm',
      jsx: 'preserve',
      loader: { '.node': 'empty', '.wasm': 'empty' },
      metafile: true,
      write: false,
      logLevel: 'silent',
    })
    return Object.keys(metafile.inputs).filter((name) => !name.split('/').includes('node_modules'))
  } catch (error) {
    throw new OsmosisError(
      'invalid_entrypoint',
      `Cannot compute the digest of ${entrypoint}, which servers and workers compare. Set its version in OSMOSIS_CODE_VERSION, e.g. the commit.\n${errorMessage(error)}`,
      { cause: error },
    )
  } finally {
    // The process of esbuild would otherwise stay alive.
    await stop()
  }
}
