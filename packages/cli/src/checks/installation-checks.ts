import { readFileSync, realpathSync } from 'node:fs'
import { mkdtemp, rm, statfs, writeFile } from 'node:fs/promises'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import path from 'node:path'

import { errorMessage } from '@osmosis/core'
import { readServerEnvironment } from '@osmosis/server'

import { loadModule } from '../inputs/load-module.ts'
import { fail, ok, warn, type CheckFinding } from './finding.ts'
import { page } from './pages.ts'

interface Manifest {
  readonly name?: string
  readonly version?: string
  readonly dependencies?: Readonly<Record<string, string>>
  readonly devDependencies?: Readonly<Record<string, string>>
  readonly peerDependencies?: Readonly<Record<string, string>>
  readonly peerDependenciesMeta?: Readonly<Record<string, { readonly optional?: boolean }>>
}

interface Installed {
  readonly folder: string
  readonly manifest: Manifest
}

/**
 * Checks that the packages of a project are installed, each @osmosis package in one version, and frameworks
 * in versions that their adapters support.
 *
 * @param root - folder of the package.json
 */
export function packageFindings(root: string): readonly CheckFinding[] {
  let manifest: Manifest
  try {
    manifest = readManifest(root)
  } catch (error) {
    return [fail('packages', `${path.join(root, 'package.json')}: ${errorMessage(error)}`)]
  }
  const wanted = Object.keys({ ...manifest.dependencies, ...manifest.devDependencies })
  const missing = wanted.filter((name) => installed(root, name) === undefined)
  const findings: CheckFinding[] = []
  if (missing.length > 0) {
    findings.push(
      fail(
        'packages',
        `Not installed: ${missing.join(', ')}.`,
        'Run npm install, or pnpm install.',
      ),
    )
  }
  const ours = new Map<string, Map<string, Installed>>()
  for (const name of wanted.filter(isOurs)) collect(root, name, ours)
  const names = [...ours.keys()].toSorted()
  findings.push(...names.flatMap((name) => copyFindings(name, copiesOf(name))))
  if (names.length > 0) {
    const versions = names.map((name) => `${name} ${versionsOf(copiesOf(name)).join(' and ')}`)
    findings.push(ok('packages', versions.join(', ')))
  }
  for (const name of names) {
    for (const { folder, manifest: own } of copiesOf(name)) {
      for (const [peer, range] of Object.entries(own.peerDependencies ?? {})) {
        const found = installed(folder, peer) ?? installed(root, peer)
        const isOptional = own.peerDependenciesMeta?.[peer]?.optional === true
        if (found === undefined && isOptional) continue
        findings.push(peerFinding(name, peer, range, found))
      }
    }
  }
  return findings

  function copiesOf(name: string): readonly Installed[] {
    return [...(ours.get(name)?.values() ?? [])]
  }
}

function versionsOf(copies: readonly Installed[]): readonly string[] {
  return [...new Set(copies.map(({ manifest }) => manifest.version ?? '?'))].toSorted()
}

function copyFindings(name: string, copies: readonly Installed[]): CheckFinding[] {
  const versions = versionsOf(copies)
  if (versions.length === 1) return []
  return [
    warn(
      'packages',
      `${name} is installed in several versions: ${versions.join(', ')}.`,
      'Update all @osmosis packages together: npm update, or pnpm update.',
    ),
  ]
}

function peerFinding(
  adapter: string,
  peer: string,
  range: string,
  found: Installed | undefined,
): CheckFinding {
  const advice = `npm install "${peer}@${range}", or the same with pnpm add`
  if (found === undefined) {
    return fail(
      'peer package',
      `${adapter} needs ${peer} ${range}, which is not installed.`,
      advice,
    )
  }
  const version = found.manifest.version ?? '?'
  if (satisfies(version, range) !== false) return ok('peer package', `${peer} ${version}`)
  return fail(
    'peer package',
    `${adapter} needs ${peer} ${range}, but ${version} is installed.`,
    advice,
  )
}

/** Collects the @osmosis packages that a folder depends on, each copy by its folder. */
function collect(from: string, name: string, found: Map<string, Map<string, Installed>>): void {
  const copy = installed(from, name)
  if (copy === undefined) return
  const copies = found.get(name) ?? new Map<string, Installed>()
  found.set(name, copies)
  if (copies.has(copy.folder)) return
  copies.set(copy.folder, copy)
  for (const other of Object.keys(copy.manifest.dependencies ?? {}).filter(isOurs)) {
    collect(copy.folder, other, found)
  }
}

function isOurs(name: string): boolean {
  return name.startsWith('@osmosis/')
}

/** The package that code in `from` resolves. */
function installed(from: string, name: string): Installed | undefined {
  for (let folder = from; ; folder = path.dirname(folder)) {
    try {
      const place = realpathSync(path.join(folder, 'node_modules', name))
      return { folder: place, manifest: readManifest(place) }
    } catch {
      if (folder === path.dirname(folder)) return undefined
    }
  }
}

function readManifest(folder: string): Manifest {
  return JSON.parse(readFileSync(path.join(folder, 'package.json'), 'utf8')) as Manifest
}

type Version = readonly [major: number, minor: number, patch: number]

/**
 * Whether a version satisfies a range of `^`, `~`, `>=`, `<` and exact versions, or several of them.
 * Undefined for other ranges. Pre-release tags are ignored.
 */
function satisfies(version: string, range: string): boolean | undefined {
  const given = parsed(version)
  if (given === undefined) return undefined
  const parts = range
    .trim()
    .split(/\s+/)
    .map((part) => satisfiesPart(given, part))
  return parts.includes(undefined) ? undefined : parts.every(Boolean)
}

function satisfiesPart(version: Version, part: string): boolean | undefined {
  const [, operator = '', text = ''] = /^(\^|~|>=|<=|>|<|=)?v?(\d[^|]*)$/.exec(part) ?? []
  const bound = parsed(text)
  if (bound === undefined) return undefined
  const order = compare(version, bound)
  switch (operator) {
    case '^':
      return order >= 0 && compare(version, nextBreaking(bound)) < 0
    case '~':
      return order >= 0 && compare(version, [bound[0], bound[1] + 1, 0]) < 0
    case '>=':
      return order >= 0
    case '<=':
      return order <= 0
    case '>':
      return order > 0
    case '<':
      return order < 0
    default:
      return order === 0
  }
}

function nextBreaking([major, minor, patch]: Version): Version {
  if (major > 0) return [major + 1, 0, 0]
  return minor > 0 ? [0, minor + 1, 0] : [0, 0, patch + 1]
}

function parsed(text: string): Version | undefined {
  const [, major, minor = '0', patch = '0'] =
    /^v?(\d+)(?:\.(\d+))?(?:\.(\d+))?(?:[-+].*)?$/.exec(text) ?? []
  return major === undefined ? undefined : [Number(major), Number(minor), Number(patch)]
}

function compare(one: Version, other: Version): number {
  return one[0] - other[0] || one[1] - other[1] || one[2] - other[2]
}

const gibibyte = 2 ** 30
/** Free space below which a check warns, and below which it fails. Bytes. */
const scarce = gibibyte
const tooLittle = gibibyte / 16

/** Checks what every command needs of the machine. */
export async function machineFindings(
  folder: string,
  environment: NodeJS.ProcessEnv,
): Promise<readonly CheckFinding[]> {
  return [await typeScriptFinding(), await portFinding(environment), await diskFinding(folder)]
}

/** Has syntax that Node.js alone does not support. */
const program = `enum Answer { Yes = 'yes' }\nexport const answer: string = Answer.Yes\n`

async function typeScriptFinding(): Promise<CheckFinding> {
  let folder: string | undefined
  try {
    folder = await mkdtemp(path.join(tmpdir(), 'osmosis-doctor-'))
    const file = path.join(folder, 'probe.mts')
    await writeFile(file, program)
    return await loadingFinding(file)
  } catch (error) {
    return fail(
      'TypeScript',
      `Not checked, because no file can be written in ${tmpdir()}: ${errorMessage(error)}`,
      'Make room there, or let TMPDIR name a folder that can be written.',
    )
  } finally {
    if (folder !== undefined) await rm(folder, { recursive: true, force: true })
  }
}

async function loadingFinding(file: string): Promise<CheckFinding> {
  try {
    const { answer } = await loadModule('probe', file)
    if (answer === 'yes') return ok('TypeScript', 'files are loaded without a build step')
    return fail('TypeScript', `A file was loaded, but exports ${String(answer)} instead of yes.`)
  } catch (error) {
    const advice = 'Remove node_modules and install again: tsx or esbuild is missing or damaged.'
    return fail('TypeScript', `TypeScript files cannot be loaded: ${errorMessage(error)}`, advice)
  }
}

async function portFinding(environment: NodeJS.ProcessEnv): Promise<CheckFinding> {
  try {
    const { port } = readServerEnvironment(environment)
    const problem = await listenOnce(port)
    if (problem === undefined) return ok('port', `${port} is free`)
    return warn(
      'port',
      `osmosis serve cannot listen on port ${port}: ${problem}`,
      'Pass --port <port> to it, or stop the program that listens. Evaluations use a free port.',
    )
  } catch (error) {
    return fail('port', errorMessage(error))
  }
}

async function listenOnce(port: number): Promise<string | undefined> {
  const server = createServer()
  return new Promise((resolve) => {
    server.once('error', (error) => resolve(error.message))
    server.listen(port, '127.0.0.1', () => server.close(() => resolve(undefined)))
  })
}

async function diskFinding(folder: string): Promise<CheckFinding> {
  const { bavail, bsize } = await statfs(folder)
  const free = bavail * bsize
  const room =
    free >= gibibyte
      ? `${(free / gibibyte).toFixed(1)} GiB`
      : `${Math.floor(free / (gibibyte / 1024))} MiB`
  const text = `${room} are free in ${folder}`
  if (free >= scarce) return ok('disk', text)
  const advice =
    'Evaluations store transcripts in .osmosis/evals: remove old runs, or pass --output.'
  return free >= tooLittle ? warn('disk', text, advice) : fail('disk', text, advice)
}

/** Checks that the program that runs the learner of `osmosis train local` is there. */
export async function learnerFinding(environment: NodeJS.ProcessEnv): Promise<CheckFinding> {
  const { learnerProgramProblem } = await import('@osmosis/train')
  const problem = await learnerProgramProblem(undefined, environment)
  if (problem === undefined) return ok('learner', 'uv is there for osmosis train local')
  return warn('learner', `osmosis train local cannot start here. ${problem}`, {
    page: page('trainers'),
  })
}
