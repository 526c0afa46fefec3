import { execFile } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { promisify } from 'node:util'

import { expect, it } from 'vitest'

import { bin } from './osmosis.ts'

const manifest = JSON.parse(readFileSync(new URL('../package.json', import.meta.url), 'utf8')) as {
  engines: { node: string }
}

/** What an older Node.js is to the command: another version, and imports that fail. */
function olderNode(version: string): string {
  const program = `
    import { registerHooks } from 'node:module'
    Object.defineProperty(process.versions, 'node', { value: '${version}' })
    registerHooks({
      resolve(specifier, context, next) {
        if (/^node:|bin\\.(ts|js)$/.test(specifier)) return next(specifier, context)
        throw new SyntaxError('imported ' + specifier)
      },
    })`
  return `data:text/javascript,${encodeURIComponent(program)}`
}

async function onNode(version: string, ...args: string[]): Promise<unknown> {
  const command = ['--import', olderNode(version), bin, ...args]
  return promisify(execFile)(process.execPath, command).catch((error: unknown) => error)
}

it.each<[version: string, ...args: string[]]>([
  ['20.20.2', 'eval', 'run', 'configs/eval/echo.toml'],
  ['22.18.0', 'serve', 'rollouts/echo/main.ts'],
  ['18.0.0', '--help'],
])(
  'says under Node.js %s which one is needed, before anything is imported',
  async (version, ...args) => {
    expect(manifest.engines.node).toBe('>=22.19')
    expect(await onNode(version, ...args)).toMatchObject({
      code: 2,
      stdout: '',
      stderr: `error: osmosis needs Node.js 22.19 or newer, but ${version} runs it.\nInstall a newer one, e.g. from https://nodejs.org, and run the command again.\n`,
    })
  },
)

it.each(['22.19.0', '23.0.0', '24.1.0-nightly'])('runs with Node.js %s', async (version) => {
  expect(await onNode(version, '--version')).toMatchObject({
    stderr: expect.stringContaining('imported ./main'),
  })
})
