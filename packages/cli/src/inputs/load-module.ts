import { readFileSync, statSync } from 'node:fs'
import { createRequire, registerHooks, setSourceMapsSupport, type LoadHookSync } from 'node:module'
import path from 'node:path'
import { pathToFileURL } from 'node:url'

import { errorMessage } from '@osmosis/core'

import { workingFolder, resolvePath } from '../command/command-context.ts'
import { readEnvironment } from '../command/environment.ts'
import { invalidEntrypoint } from '../command/wrong-use.ts'

/** Splits a name like `server.ts:agentLoop` at its last colon; `name` is undefined when no export is named. */
export function splitSpec(spec: string): { file: string; name: string | undefined } {
  // Windows paths have a colon after the drive letter.
  const [, file = spec, name] = /^(.+):([\p{ID_Start}$_][\p{ID_Continue}$]*)$/u.exec(spec) ?? []
  return { file, name }
}

/** What a module of the user exports. */
export interface LoadedExports {
  readonly exports: Readonly<Record<string, unknown>>
  /** Path of the file, for messages. */
  readonly file: string
}

/**
 * Loads a module of the user.
 *
 * @param what - what the file is called in error messages
 * @throws OsmosisError with code `invalid_entrypoint`
 */
export async function loadExports(what: string, file: string): Promise<LoadedExports> {
  const exports = await loadModule(what, file)
  const found = moduleFile(what, file)
  return { exports, file: path.relative(workingFolder(), found) || found }
}

/** @throws OsmosisError with code `invalid_entrypoint` when the module has no such export */
export function namedExport({ exports, file }: LoadedExports, name: string): unknown {
  if (name in exports) return exports[name]
  throw invalidEntrypoint(
    `${file} has no export '${name}'. Its exports: ${Object.keys(exports).toSorted().join(', ') || 'none'}.`,
  )
}

const extensions = ['.ts', '.js', '.mts', '.mjs', '.cts', '.cjs']

/**
 * Loads a module of the user, TypeScript or JavaScript, without a build step. Node.js alone does
 * not support enums, parameter properties and imports without an extension.
 *
 * @param what - what the file is called in error messages, e.g. `entrypoint`
 * @throws OsmosisError with code `invalid_entrypoint`
 */
export async function loadModule(what: string, file: string): Promise<Record<string, unknown>> {
  const fullPath = moduleFile(what, file)
  try {
    await registerTypeScript(tsconfigOf(path.dirname(fullPath)))
    if (isCommonJs(fullPath)) return requiredExports(createRequire(fullPath)(fullPath))
    return exportsOf((await import(pathToFileURL(fullPath).href)) as Record<string, unknown>)
  } catch (error) {
    const advice = await adviceFor(error, fullPath)
    throw invalidEntrypoint(`Cannot load the ${what} ${file}:\n${located(error)}${advice}`, error)
  }
}

/**
 * What to do about a package that is missing, and about a module that is compiled to CommonJS although it only works as an ES module;
 * '' for other errors.
 */
async function adviceFor(error: unknown, file: string): Promise<string> {
  const message = errorMessage(error)
  const [, name] =
    /Cannot find (?:package|module) '((?:@[^/':]+\/)?[^@./':\\][^/':\\]*)/.exec(message) ?? []
  if (name !== undefined) {
    const { packageManagerOf } = await import('@osmosis/create')
    const manager = packageManagerOf(path.dirname(file), readEnvironment())
    return `\n→ ${manager} ${manager === 'npm' ? 'install' : 'add'} ${name}`
  }
  const isModule = /top-level await.*"cjs"/is.test(message)
  return isModule ? '\nIt has to be an ES module: npm pkg set type=module' : ''
}

/** Whether its name says so. Node.js 22 cannot import such a module from TypeScript. */
function isCommonJs(file: string): boolean {
  return ['.cts', '.cjs'].includes(path.extname(file))
}

/**
 * Without `"type": "module"` in package.json, the module is compiled to CommonJS. Node.js detects the
 * exports of such a module incompletely (none of them before 24); its `default` has all of them.
 */
function exportsOf(namespace: Record<string, unknown>): Record<string, unknown> {
  const inside = namespace['default']
  const isModule = typeof inside === 'object' && inside !== null && '__esModule' in inside
  return isModule ? { ...inside } : namespace
}

/** What `module.exports` has: names, or one value. */
function requiredExports(value: unknown): Record<string, unknown> {
  const hasNames =
    value !== null && typeof value === 'object' && Object.getPrototypeOf(value) === Object.prototype
  return hasNames ? { ...value } : { default: value }
}

/**
 * The absolute path of a module: the named file, or the file with an extension added to the name.
 *
 * @param what - what the file is called in error messages, e.g. `entrypoint`
 * @throws OsmosisError with code `invalid_entrypoint` when there is none
 */
export function moduleFile(what: string, name: string): string {
  const fullPath = resolvePath(name)
  const isModule = extensions.includes(path.extname(fullPath))
  if (statSync(fullPath, { throwIfNoEntry: false })?.isDirectory()) {
    throw invalidEntrypoint(
      `The ${what} ${name} is a folder: name the module in it, e.g. ${path.join(name, 'main.ts')}.`,
    )
  }
  if (isFile(fullPath)) {
    if (isModule) return fullPath
    throw invalidEntrypoint(
      `The ${what} ${name} is not a TypeScript or JavaScript module: its name should end in .ts, .mts, .cts, .js, .mjs or .cjs.`,
    )
  }
  const candidates = isModule ? [] : extensions.map((extension) => fullPath + extension)
  const found = candidates.find(isFile)
  if (found !== undefined) return found
  const tried = isModule ? '' : ` Also tried with the extensions ${extensions.join(', ')}.`
  throw invalidEntrypoint(`The ${what} file ${fullPath} does not exist.${tried}`)
}

function isFile(file: string): boolean {
  return statSync(file, { throwIfNoEntry: false })?.isFile() ?? false
}

/**
 * The `tsconfig.json` in a folder or nearest above it; undefined when there is none, and when the user chose one for tsx. It has
 * `paths` and the kind of decorators.
 */
function tsconfigOf(folder: string): string | undefined {
  // oxlint-disable-next-line node/no-process-env -- where tsx reads it
  if (process.env[tsconfigVariable]) return undefined
  const file = path.join(folder, 'tsconfig.json')
  if (isFile(file)) return file
  const parent = path.dirname(folder)
  return parent === folder ? undefined : tsconfigOf(parent)
}

const tsconfigVariable = 'TSX_TSCONFIG_PATH'

type Unregister = () => Promise<void>

let registered: { tsconfig: string | undefined; unregister: Promise<Unregister> } | undefined

/** Replaces what is registered for another `tsconfig.json`. Without one, tsx takes that of the working folder. */
async function registerTypeScript(tsconfig: string | undefined): Promise<void> {
  if (registered === undefined || registered.tsconfig !== tsconfig) {
    registered = { tsconfig, unregister: register(tsconfig, registered?.unregister) }
  }
  await registered.unregister
}

async function register(
  tsconfig: string | undefined,
  before: Promise<Unregister> | undefined,
): Promise<Unregister> {
  const [esm, cjs] = await Promise.all([import('tsx/esm/api'), import('tsx/cjs/api')])
  const unregister = await before?.catch(() => undefined)
  await unregister?.()
  const unregisterEsm = esm.register(tsconfig === undefined ? {} : { tsconfig })
  const unregisterCjs = withVariable(tsconfig, () => cjs.register())
  const unregisterPackages = passPackages()
  return async () => {
    unregisterPackages()
    unregisterCjs()
    await unregisterEsm()
  }
}

/** The only way to name a file for CommonJS. */
function withVariable<Result>(tsconfig: string | undefined, use: () => Result): Result {
  if (tsconfig === undefined) return use()
  const { env } = process
  env[tsconfigVariable] = tsconfig
  try {
    return use()
  } finally {
    delete env[tsconfigVariable]
  }
}

/**
 * Packages are JavaScript already. Passing their modules through tsx, and reading their source maps, would double the time to
 * load. The hook that is registered last is called first.
 */
function passPackages(): () => void {
  setSourceMapsSupport(true, { nodeModules: false })
  if (!takesHooks()) return () => {}
  const hooks = registerHooks({ load: loadPackage })
  return () => {
    hooks.deregister()
  }
}

/** In earlier versions such a hook breaks every CommonJS module. */
function takesHooks(): boolean {
  const [major = 0, minor = 0] = process.versions.node.split('.').map(Number)
  return major > 24 || (major === 24 && minor >= 12)
}

/** Loads ES modules of packages directly, without tsx. */
const loadPackage: LoadHookSync = (url, context, nextLoad) => {
  if (context.format !== 'module' || !/^file:.*\/node_modules\/.*\.m?js$/.test(url)) {
    return nextLoad(url, context)
  }
  return { format: 'module', source: readFileSync(new URL(url)), shortCircuit: true }
}

/** Stack frames of Node.js and of the TypeScript compiler. */
const foreignFrame = /^ +at .*(?:node:|[\\/]node_modules[\\/](?:esbuild|tsx)[\\/])/

/** The message with the stack, which has the line in the user's code. */
function located(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  const lines = (error.stack ?? error.message).split('\n')
  return lines.filter((line) => !foreignFrame.test(line)).join('\n')
}
