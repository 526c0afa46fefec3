import { spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import path from 'node:path'

import { describe, it } from 'vitest'

/** `describe` and `it` for tests that need something, see {@link withPrograms}. */
export interface TestsWithNeeds {
  readonly describe: typeof describe
  readonly it: typeof it
}

/**
 * `describe` and `it` of vitest for tests that start these programs. Where one of them is not on PATH, they
 * skip their tests and add the missing programs to their names, which the summary of the run lists.
 *
 * @throws Error when one is missing and `OSMOSIS_TESTS_REQUIRE_PROGRAMS` is set, as in `.ci/run`
 */
export function withPrograms(...names: readonly string[]): TestsWithNeeds {
  const missing = missingPrograms(...names)
  return onlyIf(missing.length === 0, missing.join(', '))
}

/**
 * `describe` and `it` of vitest, which skip their tests unless a condition holds.
 *
 * @param needs - what the tests need, as in "these tests need a file system that can be full"
 */
export function onlyIf(holds: boolean, needs: string): TestsWithNeeds {
  if (holds) return { describe, it }
  // The other properties of vitest's functions (`skipIf`, `extend`) are not needed where everything is skipped.
  return {
    describe: withNote(describe.skip, needs) as typeof describe,
    it: withNote(it.skip, needs) as typeof it,
  }
}

/**
 * Those of the programs that are not on PATH.
 *
 * @throws Error when one is missing and `OSMOSIS_TESTS_REQUIRE_PROGRAMS` is set, as in `.ci/run`
 */
export function missingPrograms(...names: readonly string[]): string[] {
  const folders = (process.env['PATH'] ?? '').split(path.delimiter)
  const missing = names.filter(
    (name) => !folders.some((folder) => existsSync(path.join(folder, name))),
  )
  if (missing.length > 0) refuseWhereAllIsInstalled(missing.join(', '))
  return missing
}

/**
 * @param installs - the script that installs it
 * @throws Error when `OSMOSIS_TESTS_REQUIRE_PROGRAMS` is set
 */
export function refuseWhereAllIsInstalled(missing: string, installs = '.ci/programs'): void {
  if (!process.env['OSMOSIS_TESTS_REQUIRE_PROGRAMS']) return
  throw new Error(`${missing} should be installed here: run bash ${installs}.`)
}

/** A Python that has torch; undefined where there is none. Debian's package belongs to Debian's Python. */
export function pythonWithTorch(): string | undefined {
  return pythonWith(['torch'], systemPythons)
}

/**
 * A Python with these modules; default: what a real model needs, and TRL, which ships the chat templates of models.
 * The one that `.ci/python-environment` has made comes first.
 */
export function pythonWithModels(modules = modelModules): string | undefined {
  const script = path.resolve(import.meta.dirname, '../../.ci/python-environment')
  const { status, stdout } = spawnSync('bash', [script, '--find'], { encoding: 'utf8' })
  return pythonWith(modules, [...(status === 0 ? [stdout.trim()] : []), ...systemPythons])
}

const systemPythons = ['python3', '/usr/bin/python3']
const modelModules = ['torch', 'transformers', 'peft', 'trl']

/** `it` of vitest for tests that need {@link pythonWithTorch}. */
export function withTorch(): TestsWithNeeds {
  const isThere = pythonWithTorch() !== undefined
  if (!isThere) refuseWhereAllIsInstalled('python3-torch')
  return onlyIf(isThere, 'python3-torch')
}

/**
 * `it` of vitest for tests that need {@link pythonWithModels}, which no package of Debian has.
 *
 * @throws Error when `OSMOSIS_TESTS_REQUIRE_PROGRAMS` is set and a module is missing that `.ci/python-environment` installs
 */
export function withModels(modules = modelModules): TestsWithNeeds {
  const isThere = pythonWithModels(modules) !== undefined
  const needs = `python3 with ${modules.join(', ')}`
  const isInstalled = modules.every((module) => modelModules.includes(module))
  if (!isThere && isInstalled) refuseWhereAllIsInstalled(needs, '.ci/python-environment')
  return onlyIf(isThere, needs)
}

/** The `policyClass` of the learner for a transformer of 150,000 weights with tokens of text. */
export const tinyTransformer = `${path.resolve(
  import.meta.dirname,
  '../../packages/train/test/learner/tiny_policy.py',
)}:TinyPolicy`

function pythonWith(modules: readonly string[], programs: readonly string[]): string | undefined {
  const names = JSON.stringify(modules)
  const find = `from importlib.util import find_spec as f; exit(not all(map(f, ${names})))`
  return programs.find((program) => spawnSync(program, ['-c', find]).status === 0)
}

/** The same function, which adds a note to each name; `each` and other modifiers as well. */
function withNote<Declare extends object>(declare: Declare, needs: string): Declare {
  return new Proxy(declare, {
    apply(target, self, args: unknown[]) {
      const [name, ...rest] = args
      const noted = typeof name === 'string' ? [`${name} (needs ${needs})`, ...rest] : args
      const result: unknown = Reflect.apply(target as () => unknown, self, noted)
      // `it.each(cases)` returns the function that takes the name.
      return typeof result === 'function' ? withNote(result, needs) : result
    },
    get(target, key) {
      const value: unknown = Reflect.get(target, key)
      return typeof value === 'function' ? withNote(value, needs) : value
    },
  })
}
