"""From one captured instance to every number of ranks and all sizes."""

from shardproof.generalise.errors import NotGeneral as NotGeneral
from shardproof.generalise.general import General as General
from shardproof.generalise.general import generalise as generalise
from shardproof.generalise.instance import reproduces as reproduces
