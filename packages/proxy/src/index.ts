export { createPolicyProxy } from './proxy-server.ts'
export type {
  PolicyProxy,
  PolicyProxyCall,
  PolicyProxyOptions,
  PolicyProxyUse,
} from './policy-proxy.ts'
