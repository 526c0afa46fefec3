import { testPeerRange } from '../../../test/kit/index.ts'

testPeerRange(import.meta.url, '@mastra/core', (lowest) => `^${lowest}`)
