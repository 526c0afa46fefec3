import type { LlmRequest } from '@google/adk'
import { OsmosisLlm } from '@osmosis/google-adk'

import { servesWhereItIsKept } from '../../../test/kit/index.ts'

const request: LlmRequest = { contents: [], liveConnectConfig: {}, toolsDict: {} }

const make = () => {
  const model = new OsmosisLlm('main')
  return async () => {
    for await (const _ of model.generateContentAsync({ ...request, contents: [] }));
  }
}

servesWhereItIsKept(make)
