// The policy before its training.
import { TinyPolicy } from '@osmosis/testing'

export const policy = new TinyPolicy({ seed: 1 })
