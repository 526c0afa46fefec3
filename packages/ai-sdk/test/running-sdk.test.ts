import { rolloutModel } from '@osmosis/ai-sdk'
import { startPolicyServer } from '@osmosis/testing'
import { generateText, wrapLanguageModel } from 'ai'
import { expect, test } from 'vitest'

import { isNewestVersion, rolloutOn, testPeerRange, versionIn } from '../../../test/kit/index.ts'

const sdk = isNewestVersion() ? 'ai' : 'ai-lowest'

test('the adapter runs on the version of the SDK that this project is for', async () => {
  await using server = await startPolicyServer(['hi'])
  let userAgent: string | undefined
  await rolloutOn(server).run(async () => {
    const model = wrapLanguageModel({
      model: rolloutModel(),
      middleware: {
        specificationVersion: 'v4',
        wrapGenerate: async ({ doGenerate, params }) => {
          userAgent = params.headers?.['user-agent']
          return doGenerate()
        },
      },
    })
    await generateText({ model, prompt: 'hello' })
  })
  expect(userAgent).toContain(`ai/${versionIn(`../node_modules/${sdk}`, import.meta.url)}`)
})

testPeerRange(import.meta.url, 'ai', (lowest) => `^${lowest}`)
