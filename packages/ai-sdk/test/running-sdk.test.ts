import { rolloutModel } from '@osmosis/ai-sdk'
import { startPolicyServer } from '@osmosis/testing'
import { rolloutOn } from '../../../test/kit/index.ts'
import { generateText, wrapLanguageModel } from 'ai'
import { expect, test } from 'vitest'

import { readJson, sdkVersion, versionOf } from './running-sdk.ts'

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
  expect(userAgent).toContain(`ai/${sdkVersion}`)
})

test('the two versions are the ends of the peer range', () => {
  const { peerDependencies } = readJson('../package.json') as { peerDependencies: object }
  const lowest = versionOf('ai-lowest')
  expect(peerDependencies).toEqual({ ai: `^${lowest}` })
  expect(versionOf('ai')).not.toBe(lowest)
})
