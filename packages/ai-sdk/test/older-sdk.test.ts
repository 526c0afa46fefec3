import { execFile } from 'node:child_process'
import { promisify } from 'node:util'

import { expect, test } from 'vitest'

import { versionIn } from '../../../test/kit/index.ts'

// Puts the previous release of the SDK where the adapter looks for `ai`.
const hooks = `
  import { registerHooks } from 'node:module'
  registerHooks({
    resolve: (name, context, next) => next(name.replace(/^ai(?=$|\\/)/, 'ai-previous'), context),
  })`
const program = `
  await import('@osmosis/ai-sdk').catch(({ name, code, message }) =>
    console.log(JSON.stringify({ name, code, message })))`

test('an older version of the SDK is named, and what to install instead', async () => {
  const { stdout } = await promisify(execFile)(
    process.execPath,
    ['--import', `data:text/javascript,${encodeURIComponent(hooks)}`, '-e', program],
    { cwd: import.meta.dirname },
  )
  expect(JSON.parse(stdout)).toEqual({
    name: 'OsmosisError',
    code: 'invalid_config',
    message: `@osmosis/ai-sdk needs version 7 of the AI SDK, and ai ${versionIn('../node_modules/ai-previous', import.meta.url)} is installed. Install it: npm install ai@7`,
  })
})
