// @module-tag slow
import { execFile } from 'node:child_process'
import { promisify } from 'node:util'

import { expect, it } from 'vitest'

it('an app with Mastra does not load the AI SDK, which Mastra has a copy of', async () => {
  const program = `
    import { registerHooks } from 'node:module'
    const loaded = []
    registerHooks({
      load(url, context, next) {
        loaded.push(url)
        return next(url, context)
      },
    })
    await import('@osmosis/mastra')
    console.log(JSON.stringify(loaded))
    process.exit()`
  const args = ['--input-type=module-typescript', '--eval', program]
  const { stdout } = await promisify(execFile)(process.execPath, args, {
    cwd: import.meta.dirname,
    maxBuffer: 2 ** 26,
  })
  const loaded = JSON.parse(stdout) as string[]
  expect(loaded.filter((url) => url.includes('/mastra/src/rollout-model'))).toHaveLength(1)
  expect(loaded.filter((url) => url.includes('/node_modules/ai/'))).toEqual([])
})
