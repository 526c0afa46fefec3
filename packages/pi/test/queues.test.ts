import { Agent } from '@earendil-works/pi-agent-core'
import { rolloutStreamFn } from '@osmosis/pi'

import { servesWhereItIsKept } from '../../../test/kit/index.ts'

const make = () => {
  const agent = new Agent({ streamFn: rolloutStreamFn('main') })
  return async () => agent.prompt('go')
}

servesWhereItIsKept(make)
