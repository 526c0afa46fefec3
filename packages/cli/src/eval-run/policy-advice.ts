import { providerOf } from '@osmosis/models'

import type { ChosenPolicy } from '../choose-policy.ts'

/** What to do when the policy can answer no call, in words of the command line. */
export function policyAdvice({ choice }: ChosenPolicy): (status: number) => string {
  return (status) => {
    if (choice.kind === 'module') return `See the policy module ${choice.module}.`
    const { model } = choice
    const isEndpoint = choice.kind === 'endpoint'
    const usual = isEndpoint ? undefined : providerOf(model)?.provider.keyVariable
    const apiKeyEnv = choice.apiKeyEnv ?? usual
    switch (status) {
      case 401:
      case 403:
        return apiKeyEnv === undefined
          ? 'No key was sent: name the variable that holds it with --api-key-env, or api_key_env in osmosis.toml.'
          : `Check the key in ${apiKeyEnv} (--api-key-env).`
      case 402:
      case 429:
        return 'Its account has nothing left to spend.'
      case 404:
        return `Check --model ${model}${isEndpoint ? ` and --base-url ${choice.baseUrl}` : ''}.`
      default:
        return isEndpoint
          ? `Is the endpoint ${choice.baseUrl} running? Check --base-url.`
          : `Can the provider of ${model} be reached from here?`
    }
  }
}
